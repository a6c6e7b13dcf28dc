/** The API of the control socket: what each request asks, and how it is answered. */
import assert from "node:assert/strict";
import { NotReadyError, QuestionError } from "../../../../answers/mod.ts";
import { type ControlAnswers, createControlHandler } from "../../../../answers/control/server.ts";

const METHODS = ["status", "events", "explain", "resolve", "services", "endpoints", "browse", "state"] as const;

/** Answers each question with the name of the method and its arguments, or with `failure`. */
function handlerOf(failure?: Error) {
  const answers = Object.fromEntries(METHODS.map((method) => [
    method,
    (...given: readonly unknown[]) => failure ? Promise.reject(failure) : Promise.resolve([method, ...given]),
  ]));
  const handle = createControlHandler(answers as unknown as ControlAnswers);
  return (target: string, method = "GET") => {
    const [path, query = ""] = target.split("?") as [string, string?];
    return handle({ method, path, query, accept: "", host: "localhost", isFromThisHost: true });
  };
}

const EVERYTHING = { search: "", namespace: "", attention: false, page: 1, pageSize: 20 };
const QUESTION = { family: "IPv4", address: "10.96.0.10", port: 53, protocol: "udp" };

const CASES: Readonly<Record<string, readonly unknown[]>> = {
  "/v1/status": ["status"],
  "/v1/events": ["events", 0],
  "/v1/events?since=17": ["events", 17],
  "/v1/events?since=x": ["events", 0],
  "/v1/explain?to=10.96.0.10:53/udp": ["explain", QUESTION],
  "/v1/explain?to=10.96.0.10:53/udp&from=pod": ["explain", { ...QUESTION, from: "pod" }],
  "/v1/resolve?name=default/web": ["resolve", "default/web", null],
  "/v1/resolve?name=default/web&from=node": ["resolve", "default/web", "node"],
  "/v1/services": ["services", ""],
  "/v1/services?search=web": ["services", "web"],
  "/v1/endpoints": ["endpoints", ""],
  "/v1/endpoints?search=web": ["endpoints", "web"],
  "/v1/browse": ["browse", EVERYTHING],
  "/v1/browse?search=web&namespace=shop&attention=true&order=attention&page=2&pageSize=50": [
    "browse",
    { search: "web", namespace: "shop", attention: true, order: "attention", page: 2, pageSize: 50 },
  ],
  "/v1/browse?attention=no&order=nonsense&page=x&pageSize=y": ["browse", EVERYTHING],
  "/v1/state?family=IPv6": ["state", "IPv6"],
};

for (const [target, asked] of Object.entries(CASES)) {
  Deno.test(`GET ${target} is answered as JSON`, async () => {
    const { status, contentType, body } = await handlerOf()(target);
    assert.deepEqual([status, contentType], [200, "application/json"]);
    // JSON leaves out undefined values.
    assert.deepEqual(JSON.parse(String(body)), JSON.parse(JSON.stringify(asked)));
  });
}

Deno.test("the process of the proxy is named", async () => {
  const { body } = await handlerOf()("/v1/process");
  assert.equal(JSON.parse(String(body)).pid, Deno.pid);
});

Deno.test("other paths and methods are not found, and malformed questions are refused", async () => {
  const ask = handlerOf();
  for (const [target, method] of [["/v1/nothing"], ["toString"], ["/"], ["/v1/status", "POST"]] as const) {
    assert.equal((await ask(target, method)).status, 404, target);
  }
  for (const target of ["/v1/explain", "/v1/explain?to=web", "/v1/state", "/v1/state?family=IPv5"]) {
    assert.equal((await ask(target)).status, 400, target);
  }
});

Deno.test("a question that has no answer yet is refused for now, and any other error is the server's", async () => {
  assert.equal((await handlerOf(new QuestionError("no"))("/v1/resolve?name=x")).status, 400);
  assert.equal((await handlerOf(new NotReadyError("later"))("/v1/services")).status, 503);
  await assert.rejects(async () => await handlerOf(new Error("a bug"))("/v1/services"), /a bug/);
});
