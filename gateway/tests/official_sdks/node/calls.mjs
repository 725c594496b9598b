// Makes the calls that are listed on standard input, all at once, each by an SDK with its defaults, and prints what became
// of each as a line of JSON.

import { readFileSync } from "node:fs";

import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const messages = [{ role: "user", content: "hello" }];

async function askOpenAI(baseURL, stream) {
  const client = new OpenAI({ baseURL: `${baseURL}/v1`, apiKey: "k" });
  const answer = await client.chat.completions.create({ model: "m", messages, stream });
  if (!stream) return answer.choices[0].message.content;
  let text = "";
  for await (const chunk of answer) text += chunk.choices[0].delta.content ?? "";
  return text;
}

async function askAnthropic(baseURL, stream) {
  const client = new Anthropic({ baseURL, apiKey: "k" });
  const answer = await client.messages.create({ model: "m", max_tokens: 9, messages, stream });
  if (!stream) return answer.content[0].text;
  let text = "";
  for await (const event of answer) if (event.type === "content_block_delta") text += event.delta.text;
  return text;
}

const sdks = {
  openai: { ask: askOpenAI, name: "openai", APIError: OpenAI.APIError },
  anthropic: { ask: askAnthropic, name: "@anthropic-ai/sdk", APIError: Anthropic.APIError },
};

const version = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;

async function run({ sdk, base_url, stream }) {
  const { ask, name, APIError } = sdks[sdk];
  const result = { version: version(name), answer: null, status: null, error: null };
  try {
    result.answer = await ask(base_url, stream);
  } catch (error) {
    if (!(error instanceof APIError)) throw error;
    result.status = error.status ?? null;
    result.error = error.constructor.name;
  }
  return result;
}

const calls = JSON.parse(readFileSync(0, "utf8"));
for (const result of await Promise.all(calls.map(run))) console.log(JSON.stringify(result));
