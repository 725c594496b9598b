"""Makes many calls with as many threads as standard input says, by one client of OpenAI's SDK with its defaults, and prints
how many were answered."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import openai

orders = json.load(sys.stdin)
client = openai.OpenAI(base_url=orders["base_url"] + "/v1", api_key="k")


def ask(number):
    messages = [{"role": "user", "content": f"hello {number}"}]
    try:
        answer = client.chat.completions.create(model="m", messages=messages)
    except openai.APIError:
        return False
    return answer.choices[0].message.content == "hello"


with ThreadPoolExecutor(max_workers=orders["workers"]) as pool:
    answered = sum(pool.map(ask, range(orders["calls"])))
print(json.dumps({"version": openai.__version__, "answered": answered}))
