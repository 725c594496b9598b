"""Makes the calls that are listed on standard input, all at once, each by an SDK with its defaults, and prints what became
of each as a line of JSON."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import anthropic
import openai

MESSAGES = [{"role": "user", "content": "hello"}]


def ask_openai(base_url, stream):
    client = openai.OpenAI(base_url=base_url + "/v1", api_key="k")
    answer = client.chat.completions.create(model="m", messages=MESSAGES, stream=stream)
    if not stream:
        return answer.choices[0].message.content
    return "".join(chunk.choices[0].delta.content or "" for chunk in answer)


def ask_anthropic(base_url, stream):
    client = anthropic.Anthropic(base_url=base_url, api_key="k")
    answer = client.messages.create(model="m", max_tokens=9, messages=MESSAGES, stream=stream)
    if not stream:
        return answer.content[0].text
    return "".join(event.delta.text for event in answer if event.type == "content_block_delta")


SDKS = {"openai": (openai, ask_openai), "anthropic": (anthropic, ask_anthropic)}


def run(call):
    module, ask = SDKS[call["sdk"]]
    result = {"version": module.__version__, "answer": None, "status": None, "error": None}
    try:
        result["answer"] = ask(call["base_url"], call["stream"])
    except module.APIStatusError as error:
        result["status"], result["error"] = error.status_code, type(error).__name__
    except module.APIConnectionError as error:
        result["error"] = type(error).__name__
    return result


calls = json.load(sys.stdin)
with ThreadPoolExecutor(max_workers=len(calls)) as pool:
    for result in pool.map(run, calls):
        print(json.dumps(result))
