// A client of the TypeScript SDK, driven by lines of JSON.
//
//   node client.mjs ANSWER COMMAND [ARGUMENT...]
//
// starts the server COMMAND and says on stdout, first, what it found there.
// ANSWER is what its user says to the server's questions: allow, deny, decline,
// cancel, or never anything; or none: then it has no elicitation. Each line of stdin is a call,
// {"tool","arguments","progress"}; each is answered by {"result"} or {"failed"},
// with {"progress"} and {"asked"} before that where there were any.
import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const [answer, command, ...args] = process.argv.slice(2);
const say = (message) => process.stdout.write(JSON.stringify(message) + "\n");

const capabilities = answer === "none" ? {} : { elicitation: {} };
const client = new Client({ name: "mcpclients", version: "1" }, { capabilities });
if (answer !== "none") {
  client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
    say({ asked: params });
    if (answer === "never") return new Promise(() => {});
    const decides = answer === "allow" || answer === "deny";
    return decides ? { action: "accept", content: { decision: answer } } : { action: answer };
  });
}
// The SDK puts a notification off behind the reading of the next message: a last
// progress that comes in one piece with the response finds its token gone.
const late = 'Received a progress notification for an unknown token';
client.onerror = (err) => String(err).includes(late) || say({ trouble: String(err) });

await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" }));
const { tools } = await client.listTools(); // from now on results are checked against their schemas
say({ server: client.getServerVersion(), instructions: client.getInstructions(), tools });

for await (const line of createInterface({ input: process.stdin })) {
  const call = JSON.parse(line);
  const options = call.progress ? { onprogress: (progress) => say({ progress }) } : {};
  try {
    say({ result: await client.callTool({ name: call.tool, arguments: call.arguments }, undefined, options) });
  } catch (err) {
    say({ failed: { code: err.code, message: err.message } });
  }
}
await client.close();
process.exit(0); // whatever its user still thinks about
