// Makes many calls with as many workers as standard input says, by one client of OpenAI's SDK with its defaults, and prints
// how many were answered.

import { readFileSync } from "node:fs";

import OpenAI from "openai";

const { base_url, calls, workers } = JSON.parse(readFileSync(0, "utf8"));
const { version } = JSON.parse(readFileSync("node_modules/openai/package.json", "utf8"));
const client = new OpenAI({ baseURL: `${base_url}/v1`, apiKey: "k" });
let next = 0;
let answered = 0;

async function work() {
  while (next < calls) {
    const messages = [{ role: "user", content: `hello ${next++}` }];
    try {
      const answer = await client.chat.completions.create({ model: "m", messages });
      answered += answer.choices[0].message.content === "hello" ? 1 : 0;
    } catch (error) {
      if (!(error instanceof OpenAI.APIError)) throw error;
    }
  }
}

await Promise.all(Array.from({ length: workers }, work));
console.log(JSON.stringify({ version, answered }));
