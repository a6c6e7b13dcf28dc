import assert from "node:assert/strict";
import { stateOfFamily, stateOfLink, stateOfProxy, type StateWords } from "../../../../answers/status/states.ts";
import type { FamilyStatusDetails, ProxyStatus } from "../../../../answers/status/mod.ts";
import type { ProblemCode } from "../../../../core/problems/mod.ts";
import { fakeFamilyStatus, fakeStatus, fakeSync } from "../../../fakes/proxy_status.ts";

const NOW_MS = 100_000;

function problem(code: ProblemCode, subject: string, count = 1): ProxyStatus["problems"][number] {
  return { code, subject, detail: `because of ${code}`, sinceMs: 40_000, count, severity: "error" } as never;
}

const line = ({ tone, words, reason }: StateWords) =>
  [tone, words, ...reason === undefined ? [] : [reason]].join(" | ");

/** The state of an IPv4 family that is in sync, with these changes. */
function family(changes: Partial<FamilyStatusDetails>, problems: ProxyStatus["problems"] = []): string {
  return line(stateOfFamily(fakeFamilyStatus({ syncs: [fakeSync()], ...changes }), { problems, atMs: NOW_MS }));
}

Deno.test("a family that has no worker says why", () => {
  const worker = (state: object) => family({ worker: state as FamilyStatusDetails["worker"] });
  const reason = "no nft";
  assert.equal(worker({ state: "unfit", unsupported: true, reason }), "idle | not served by this host | no nft");
  assert.equal(worker({ state: "unfit", unsupported: false, reason }), "bad | cannot be served | no nft");
  assert.equal(worker({ state: "restarting", restarts: 3, reason }), "bad | worker restarting (3) | no nft");
  assert.equal(worker({ state: "starting" }), "warning | starting");
  assert.equal(worker({ state: "resting" }), "idle | no services");
});

Deno.test("a family is in sync unless its last sync, its backlog or another program says otherwise", () => {
  assert.equal(family({}), "good | in sync");
  assert.equal(family({ changesPending: 1 }), "good | syncing");
  assert.equal(family({ syncs: [] }), "warning | waiting for the cluster's state");
  const failed = { syncs: [fakeSync({ ok: false }), fakeSync()] };
  assert.equal(family(failed), "bad | syncs have been failing, retrying");
  assert.equal(
    family(failed, [problem("sync-failed", "IPv6"), problem("sync-failed", "IPv4", 2)]),
    "bad | syncs have been failing for 60 s (2 times), retrying | because of sync-failed",
  );
  const features = { one: {}, canary: { broken: "packets are lost", reason: "no answer" } };
  assert.equal(family({ features } as never), "bad | packets are lost | no answer");
  assert.equal(
    family({ healthy: false }, [problem("changes-overdue", "IPv4")]),
    "bad | behind: a tool or the kernel does not answer | because of changes-overdue",
  );
  assert.equal(family({ healthy: false }, [problem("changes-overdue", "IPv6")]), "bad | behind: changes are overdue");
  assert.equal(
    family({}, [problem("rules-changed-by-others", "IPv4")]),
    "bad | the rules differ at every comparison | because of rules-changed-by-others",
  );
});

Deno.test("a sync with problems names the number of refused service ports of its family", () => {
  const withProblems = { syncs: [fakeSync({ problems: 1 })] };
  assert.equal(family(withProblems), "bad | in sync, with problems");
  const refused = [
    problem("rules-refused", "default/web:http (IPv4)"),
    problem("rules-refused", "default/web:http (IPv6)"),
    problem("object-invalid", "default/web (IPv4)"),
  ];
  assert.equal(family(withProblems, refused), "bad | in sync, except for 1 refused service port");
  const two = [...refused, problem("not-relayed", "default/web:tls (IPv4)")];
  assert.equal(family(withProblems, two), "bad | in sync, except for 2 refused service ports");
});

Deno.test("a link says since when it has its state, when it was heard last, and when it is tried again", () => {
  const link = (changes: Partial<NonNullable<ProxyStatus["link"]>>) =>
    line(stateOfLink({ link: { server: "a:1", sinceMs: 40_000, ...changes } as never, atMs: NOW_MS })!);
  assert.equal(stateOfLink({ link: undefined, atMs: NOW_MS }), undefined);
  assert.equal(link({ state: "connecting" }), "warning | connecting for 60 s");
  assert.equal(link({ state: "connected" }), "good | connected to a:1 for 60 s");
  assert.equal(
    link({ state: "connected", lastReceivedMs: 97_600 }),
    "good | connected to a:1 for 60 s | last answer 2 s ago",
  );
  const disconnected = { state: "disconnected", sinceMs: 95_000 } as const;
  const words = "bad | disconnected from a:1 for 5 s |";
  assert.equal(link(disconnected), `${words} retrying now`);
  assert.equal(link({ ...disconnected, retryAtMs: NOW_MS + 499 }), `${words} retrying now`);
  assert.equal(link({ ...disconnected, retryAtMs: NOW_MS + 500 }), `${words} retry in 1 s`);
  const heard = { ...disconnected, lastReceivedMs: 90_000, retryAtMs: NOW_MS + 3_000 };
  assert.equal(link(heard), `${words} last answer 10 s ago; retry in 3 s`);
});

/** The state of a proxy whose families have these states. */
function proxy(states: readonly string[], changes: Partial<ProxyStatus> = {}): string {
  const views = states.map((state, i) => {
    const [tone, words, reason] = state.split(" | ");
    return { family: i === 0 ? "IPv4" : "IPv6", state: { tone, words, reason } } as const;
  });
  return line(stateOfProxy(fakeStatus({ atMs: NOW_MS, ...changes }), views as never));
}

Deno.test("a proxy has the state of its worst families", () => {
  const good = "good | in sync", starting = "warning | starting", unfit = "bad | cannot be served | no nft";
  assert.equal(proxy([good, good]), "good | all in sync");
  assert.equal(proxy([]), "good | all in sync");
  assert.equal(proxy([good, starting]), "warning | IPv6: starting");
  assert.equal(proxy([starting, starting]), "warning | IPv4: starting; IPv6: starting");
  assert.equal(proxy([starting, unfit]), "bad | IPv6: cannot be served");
  assert.equal(proxy([unfit, unfit]), "bad | neither IP family can be served | no nft");
  assert.equal(proxy([unfit, "idle | cannot be served"]), "bad | IPv4: cannot be served");
});

Deno.test("a proxy without its source says what stays in effect; a failing family is more important", () => {
  const good = "good | in sync", bad = "bad | behind";
  const link = { state: "disconnected", server: "a:1", sinceMs: 40_000, lastError: "refused" } as never;
  const nothing = "nothing read from it yet, the kernel stays as it is";
  assert.equal(proxy([good], { link }), `bad | cannot read a:1 for 60 s: ${nothing} | refused`);
  const families = [fakeFamilyStatus(), fakeFamilyStatus({ syncs: [fakeSync()] })];
  const stays = "the last known state stays in effect";
  assert.equal(proxy([good], { link, families }), `bad | cannot read a:1 for 60 s: ${stays} | refused`);
  assert.equal(proxy([bad], { link, families }), "bad | IPv4: behind");
  const problems = [problem("file-unreadable", "web.yaml")];
  const unreadable = `bad | cannot read web.yaml for 60 s: ${nothing} | because of file-unreadable`;
  assert.equal(proxy([good], { problems }), unreadable);
  assert.equal(proxy([bad], { problems }), "bad | IPv4: behind");
});

Deno.test("a proxy in sync says what is wrong beside the kernel", () => {
  const good = ["good | in sync"];
  assert.equal(proxy(good, { healthy: false, nodeEligible: false }), "bad | behind: changes are overdue");
  const why = "health checks tell load balancers to send no traffic here";
  assert.equal(proxy(good, { nodeEligible: false }), `warning | the node is leaving | ${why}`);
  assert.match(proxy(good, { nodeEligible: false, nodeKnown: false }), /^warning \| there is no Node object \S+ \|/);
  const one = problem("rules-refused", "default/web:http (IPv4)"), two = problem("object-invalid", "default/web");
  assert.match(
    proxy(good, { problems: [one] }),
    /^warning \| all in sync, with a problem \| default\/web:http \(IPv4\): ./,
  );
  assert.match(proxy(good, { problems: [one, two] }), /^warning \| all in sync, with problems \| (?!default)./);
});
