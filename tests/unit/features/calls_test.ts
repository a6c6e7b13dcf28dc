import assert from "node:assert/strict";
import { FEATURE_CALLS } from "../../../features/calls.ts";
import { examine, rulesInTheWay } from "../../../features/canary/calls.ts";
import { readConnections } from "../../../features/connection_weights/calls.ts";
import { readAttempts } from "../../../features/failover/calls.ts";
import { checkedMessage } from "../../../workers/checked_message.ts";
import { familyCode } from "../../../workers/calls.ts";

const call = (name: string, request: unknown) => ({ type: "call", number: 1, name, request });

Deno.test("each call in the folder of a feature is listed, under a name of its own", async () => {
  const features = new URL("../../../features/", import.meta.url);
  const found = new Set<unknown>();
  for (const { name, isDirectory } of Deno.readDirSync(features)) {
    if (!isDirectory || ![...Deno.readDirSync(new URL(name, features))].some((file) => file.name === "calls.ts")) {
      continue;
    }
    for (const value of Object.values(await import(`${features}${name}/calls.ts`))) {
      if (typeof value === "object" && value !== null && "handle" in value) found.add(value);
    }
  }
  assert.deepEqual(new Set(FEATURE_CALLS), found);
  assert.equal(new Set(FEATURE_CALLS.map(({ name }) => name)).size, FEATURE_CALLS.length);
});

Deno.test("workers and the executable may run the tools of calls", () => {
  const compile = Deno.readTextFileSync(new URL("../../../compile.sh", import.meta.url));
  const permitted = [...compile.matchAll(/^kernel_tools\+?=(.*)$/gm)].flatMap(([, names]) => names!.split(","));
  for (const tool of FEATURE_CALLS.flatMap(({ tools = [] }) => tools)) {
    assert.ok(familyCode("IPv4").tools.includes(tool) && permitted.includes(tool), tool);
  }
});

Deno.test("the executable may load the library of the families' workers, and no other", () => {
  const compile = Deno.readTextFileSync(new URL("../../../compile.sh", import.meta.url));
  assert.equal(/^ +--allow-ffi=(.*)$/m.exec(compile)?.[1], familyCode("IPv4").libraries?.join());
});

const SERVED = { prefixes: ["fd00::/64"], ports: [80], nodePorts: [] };
const GONE = { namespace: "default", endpoint: "[fd00::1]:80", frontends: ["[fd00::2]:80", "10.96.0.1:80"] };
const NOTIFICATION = { socket: "/run/systemd/notify", status: "all in sync …", ready: true };

Deno.test("a worker accepts valid requests of features", () => {
  const requests = {
    ...{ examine: "everything", rulesInTheWay: SERVED, readAttempts: undefined, resetGone: [GONE] },
    ...{ readConnections: undefined, notify: NOTIFICATION },
  };
  assert.deepEqual(Object.keys(requests), FEATURE_CALLS.map(({ name }) => name));
  for (const [name, request] of Object.entries(requests)) checkedMessage(structuredClone(call(name, request)));
});

const REFUSED: Readonly<Record<string, unknown>> = {
  "any examination": call("examine", "-f /etc/passwd"),
  "any prefix": call("rulesInTheWay", { ...SERVED, prefixes: ["; flush ruleset"] }),
  "a request for attempts with fields": call("readAttempts", {}),
  "any endpoint": call("resetGone", [{ ...GONE, endpoint: "10.1.0.1 }; flush ruleset" }]),
  "any frontend": call("resetGone", [{ ...GONE, frontends: ["10.1.0.1"] }]),
  "a notification with more fields": call("notify", { ...NOTIFICATION, status: "in sync\nMAINPID=1" }),
  "an option as the socket": call("notify", { ...NOTIFICATION, socket: "--no-block" }),
};

for (const [what, message] of Object.entries(REFUSED)) {
  Deno.test(`a worker refuses ${what}`, () => {
    assert.throws(() => checkedMessage(message), /^Error: message refused: /);
  });
}

Deno.test("of a worker's findings, those of another form are dropped, and details are cut", () => {
  const finding = { cause: "table-full", detail: "full", certain: false };
  const odd = [{ ...finding, cause: "x{}" }, { ...finding, certain: "no" }], long = "x".repeat(5000);
  const checked = examine.checked([finding, ...odd, { ...finding, detail: long }]);
  assert.deepEqual(checked, [finding, { ...finding, detail: "x".repeat(400) }]);
  assert.equal(examine.checked("full"), undefined);
});

Deno.test("of a worker's rules in the way, those of another form are dropped, and details are cut", () => {
  const rule = { detail: "chain c drops", packets: 3 }, uncounted = { detail: "x".repeat(5000), packets: undefined };
  const odd = [{ ...rule, packets: -1 }, { ...rule, detail: 1 }, { ...rule, more: 1 }];
  const expected = [rule, { ...uncounted, detail: "x".repeat(400) }];
  assert.deepEqual(rulesInTheWay.checked([rule, ...odd, uncounted]), expected);
});

Deno.test("counts of connections pass only with valid fields, or as a failure", () => {
  const endpoints = new Map([["10.1.0.1:80", { open: 3, opened: 5 }]]);
  const accepted = [{ endpoints, durationMs: 1.5 }, { endpoints: undefined, durationMs: 0 }, { failure: "no nft" }];
  for (const answer of accepted) assert.equal(readConnections.checked(answer), answer);
  const wrong = new Map([["10.1.0.1:80", { open: -1, opened: 5 }]]);
  for (const answer of [{ endpoints }, { endpoints: wrong, durationMs: 1 }, { failure: 1 }, undefined]) {
    assert.equal(readConnections.checked(answer), undefined);
  }
});

Deno.test("a failed reading of connections is an answer", async () => {
  const failing = (openConnections: (() => Promise<never>) | undefined) =>
    readConnections.handle({ backend: { openConnections } } as never, undefined);
  assert.deepEqual(await failing(() => Promise.reject(new Error("no nft"))), { failure: "no nft" });
  assert.equal(await failing(undefined), undefined);
});

Deno.test("counts of attempts pass only with valid fields", () => {
  const counts = new Map([["10.1.0.1:80", { made: 3, answered: 0 }]]);
  assert.equal(readAttempts.checked(counts), counts);
  for (const wrong of [{}, new Map([["10.1.0.1:80", { made: -1, answered: 0 }]]), new Map([[1, {}]])]) {
    assert.equal(readAttempts.checked(wrong), undefined);
  }
});
