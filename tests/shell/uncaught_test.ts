import assert from "node:assert/strict";
import { stripVTControlCharacters } from "node:util";

/** Tests of which some leave an uncaught error. */
const TESTS = `
import { connect } from "node:net";
import { EventEmitter } from "node:events";
import { catchUncaught } from ${JSON.stringify(new URL("../fakes/uncaught.ts", import.meta.url).href)};
const refused = () => connect(1, "127.0.0.1");
let begin = () => {};
const begun = new Promise<void>((resolve) => begin = resolve);
const uncaught = (type: string) => new Promise<Event>((resolve) => addEventListener(type, resolve, { once: true }));
Deno.test("good", () => {});
Deno.test("a socket", async () => { refused(); await uncaught("error"); });
Deno.test("a rejection", async () => { void Promise.reject(new Error("rejected")); await uncaught("unhandledrejection"); });
const fail = () => new EventEmitter().emit("error", new Error("emitted"));
Deno.test("at its end", () => void setImmediate(() => setImmediate(fail)));
Deno.test("after its end", () => void begun.then(refused));
Deno.test("meanwhile", async () => { const error = uncaught("error"); begin(); await error; });
catchUncaught();
`;

Deno.test("an uncaught error fails the test that caused it, and no other test of the room", async () => {
  const file = await Deno.makeTempFile({ suffix: "_test.ts" });
  await Deno.writeTextFile(file, TESTS);
  const { code, stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["test", "--no-check", "--allow-net", file],
    env: { NO_COLOR: "1" },
  }).output();
  await Deno.remove(file);
  const output = stripVTControlCharacters(new TextDecoder().decode(stdout));
  assert.equal(code, 1);
  const results = [...output.matchAll(/^(.+) \.\.\. (ok|FAILED)/gm)].map(([, name, result]) => `${name}: ${result}`);
  assert.deepEqual(results, [
    "good: ok",
    "a socket: FAILED",
    "a rejection: FAILED",
    "at its end: FAILED",
    "after its end: ok",
    "meanwhile: ok",
  ]);
  assert.match(output, /uncaught error of test 5: Error: connect ECONNREFUSED/);
});
