import assert from "node:assert/strict";
import { ToolMissingError, ToolMovedError, ToolTimeoutError } from "../../../../backends/tools/mod.ts";
import {
  createKubectl,
  exitStatusOf,
  type NodeReport,
  readInventory,
  surveyNodes,
} from "../../../../cli/cluster/mod.ts";
import { failureOfKubectl } from "../../../../cli/cluster/kubectl.ts";
import { clusterLines } from "../../../../cli/text/mod.ts";
import { PLAIN } from "../../../../cli/text/lines.ts";
import { type FakeCluster, fakeKubectl, runningPod, statusOutput } from "./fake_kubectl.ts";

const SELECTION = { namespace: "kube-system", selector: "app=sluice", timeoutMs: 10_000 };

async function survey(cluster: FakeCluster): Promise<readonly NodeReport[]> {
  const kubectl = fakeKubectl(cluster);
  const { entries } = await readInventory(kubectl, SELECTION);
  return await surveyNodes(kubectl, entries, SELECTION, () => {});
}

/** The states of nodes by name, in the order of the survey. */
function statesOf(reports: readonly NodeReport[]): readonly string[] {
  return reports.map(({ node, state }) => `${node}: ${state.words}`);
}

const ENDED = (code: number) =>
  `Defaulted container "sluice" out of: sluice\ncommand terminated with exit code ${code}\n`;

Deno.test("a survey shows the worst nodes first, and why a node does not answer", async () => {
  const answers: Record<string, Awaited<ReturnType<FakeCluster["exec"]>>> = {
    "sluice-n1": { stdout: statusOutput({}) },
    "sluice-n2": {
      exitCode: 1,
      stdout: statusOutput({ inOrder: false, state: { tone: "bad", words: "IPv4: syncs have been failing" } }),
      stderr: ENDED(1),
    },
    "sluice-n3": { exitCode: 1, stderr: 'Error from server (Forbidden): pods "x" is forbidden: User "eve" cannot\n' },
    "sluice-n5": { exitCode: 1, stderr: "error: error dialing backend: dial tcp: i/o timeout\n" },
    "sluice-n6": { exitCode: 3, stderr: `sluice: there is no control socket at /run/x\n${ENDED(3)}` },
    "sluice-n7": {
      exitCode: 2,
      stderr: `sluice: unknown command "status"; see sluice --help for all commands\n${ENDED(2)}`,
    },
    "sluice-n8": { stdout: JSON.stringify({ status: { version: "0.1.0", mode: "iptables", healthy: true } }) },
    "sluice-n9": { exitCode: 1, stderr: "error: Internal error occurred: container not found (sluice)\n" },
  };
  const reports = await survey({
    nodes: {
      n1: true,
      n2: true,
      n3: true,
      n4: true,
      n5: false,
      n6: true,
      n7: true,
      n8: true,
      n9: true,
      n10: true,
      n11: true,
    },
    pods: [
      ...["n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"].map((node) => runningPod(node)),
      "n9|sluice-n9|Running||CrashLoopBackOff||2026-01-01T00:00:00Z",
      "n10|sluice-n10|Pending|ImagePullBackOff|PodInitializing||2026-01-01T00:00:00Z",
    ],
    exec(pod) {
      if (pod === "sluice-n4") throw new ToolTimeoutError("kubectl", 10_000);
      return answers[pod]!;
    },
  });
  assert.deepEqual(statesOf(reports), [
    "n2: IPv4: syncs have been failing",
    "n3: no answer: forbidden",
    "n4: no answer: timeout after 10 s",
    "n5: no answer: the node is not ready",
    "n6: no answer: its proxy does not answer",
    "n7: no answer: a version without sluice status",
    "n9: no answer: its pod is CrashLoopBackOff",
    "n10: no answer: its pod is ImagePullBackOff",
    "n8: healthy",
    "n11: no pod",
    "n1: all in sync",
  ]);
  const reasonOf = (name: string) => reports.find(({ node }) => node === name)!.state.reason;
  assert.equal(reasonOf("n3"), 'Error from server (Forbidden): pods "x" is forbidden: User "eve" cannot');
  assert.equal(reasonOf("n6"), "sluice: there is no control socket at /run/x");
  assert.match(reasonOf("n8")!, /^Sluice 0\.1\.0 sends no more/);
  assert.equal(exitStatusOf(reports), 1);
});

Deno.test("kubectl's messages tell a silent kubelet from a silent API server", () => {
  const causeOf = (stderr: string) => failureOfKubectl({ exitCode: 1, stderr }).words;
  // kubectl 1.32 and kube-apiserver 1.36.
  const kubelet = [
    'error: Internal error occurred: error sending request: Post "https://127.0.0.1:10250/exec/kube-system/sluice-a/sluice' +
    '?command=sluice&error=1&output=1": dial tcp 127.0.0.1:10250: connect: connection refused',
    "Error from server: error dialing backend: dial tcp 192.0.2.9:10250: i/o timeout",
  ];
  const server = [
    "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?",
    "Unable to connect to the server: dial tcp 192.0.2.77:1: connect: no route to host",
    "Unable to connect to the server: dial tcp: lookup nohost.invalid on 192.0.2.53:53: no such host",
  ];
  assert.deepEqual(kubelet.map(causeOf), kubelet.map(() => "its kubelet does not answer"));
  assert.deepEqual(server.map(causeOf), server.map(() => "the API server does not answer"));
});

Deno.test("of an unreachable API server, kubectl's own error is shown once, without the log of its library", () => {
  const refused = "The connection to the server localhost:8080 was refused - did you specify the right host or port?";
  const attempt = 'E1129 08:09:46.344920   21590 memcache.go:265] "Unhandled Error" err="couldn\'t get current list"\n';
  const failure = failureOfKubectl({ exitCode: 1, stderr: `${attempt}${attempt}${refused}\n` });
  assert.deepEqual([failure.words, failure.reason], ["the API server does not answer", refused]);
});

Deno.test("a cluster without nodes is not in order", () => {
  assert.deepEqual(clusterLines([], PLAIN).slice(0, 1), ["● no nodes"]);
});

Deno.test("the exit status is that of the worst node", async () => {
  const one = async (stdout: string) =>
    exitStatusOf(await survey({ nodes: { a: true, b: true }, pods: [runningPod("a")], exec: () => ({ stdout }) }));
  assert.equal(await one(statusOutput({})), 0, "a node without a pod may have another proxy");
  assert.equal(await one(statusOutput({ inOrder: false, state: { tone: "warning", words: "starting" } })), 1);
  assert.equal(await one(""), 3);
  assert.equal(await one('{"status":{"version":"0.1.0","healthy":false}}'), 1);
  assert.equal(exitStatusOf(await survey({ nodes: { a: true }, pods: [], exec: () => ({}) })), 3);
});

Deno.test("no answer can be mistaken for a status", async () => {
  for (const stdout of ["null", "[]", "7", "{", '{"status":[]}', '{"status":{"version":1}}', '{"summary":{}}']) {
    const [report] = await survey({ nodes: { a: true }, pods: [runningPod("a")], exec: () => ({ stdout }) });
    assert.equal(report!.answer, "none", stdout);
  }
  const odd =
    '{"status":{"version":"9","mode":3,"healthy":true},"summary":{"inOrder":1,"state":{"tone":"pink","words":"x"}}}';
  const [report] = await survey({ nodes: { a: true }, pods: [runningPod("a")], exec: () => ({ stdout: odd }) });
  assert.deepEqual([report!.state.words, report!.status?.mode], ["healthy", undefined]);
});

Deno.test("at most 16 nodes are asked at a time, and all of them", async () => {
  const names = Array.from({ length: 100 }, (_, i) => `n${i}`);
  let current = 0, most = 0;
  const reports = await survey({
    nodes: Object.fromEntries(names.map((name) => [name, true])),
    pods: names.map((name) => runningPod(name)),
    async exec() {
      most = Math.max(most, ++current);
      await Promise.resolve();
      current--;
      return { stdout: statusOutput({}) };
    },
  });
  assert.deepEqual([most, reports.length], [16, 100]);
  assert.deepEqual(reports.slice(0, 3).map(({ node }) => node), ["n0", "n1", "n2"]);
});

Deno.test("without the permission to list nodes, those with a pod are shown", async () => {
  const kubectl = fakeKubectl({
    nodes: "Error from server (Forbidden): nodes is forbidden",
    pods: [runningPod("b"), runningPod("a"), "|sluice-x|Pending||||2026-01-01T00:00:00Z"],
    exec: () => ({}),
  });
  const { entries, nodesUnknown } = await readInventory(kubectl, SELECTION);
  assert.deepEqual(entries.map(({ node }) => node), ["a", "b"]);
  assert.match(nodesUnknown!, /^forbidden: /);
});

Deno.test("of several pods on a node, the one that runs and stays is asked", async () => {
  const pods = [
    "a|leaving|Running|||2026-01-02T00:00:00Z|2026-01-04T00:00:00Z",
    "a|older|Running||||2026-01-01T00:00:00Z",
    "a|newer|Running||||2026-01-02T00:00:00Z",
    "a|waiting|Pending||||2026-01-03T00:00:00Z",
  ];
  const { entries } = await readInventory(fakeKubectl({ nodes: { a: true }, pods, exec: () => ({}) }), SELECTION);
  assert.deepEqual(entries, [{ node: "a", ready: true, pod: { name: "newer", phase: "Running", waiting: "" } }]);
});

Deno.test("a missing kubectl is named, and an interrupt is no failure of kubectl", async () => {
  const interrupt = new AbortController();
  const failing = (error: Error) => createKubectl({ run: () => Promise.reject(error) }, {}, [], interrupt.signal);
  for (const error of [new ToolMissingError("kubectl"), new ToolMovedError("kubectl")]) {
    await assert.rejects(readInventory(failing(error), SELECTION), /^KubectlError: .*kubectl is not on the PATH/);
  }
  interrupt.abort();
  await assert.rejects(readInventory(failing(new Error("stopped by SIGINT")), SELECTION), /^Error: stopped by SIGINT$/);
});

Deno.test("the table has one line per node, and no control characters of a node", async () => {
  const reports = await survey({
    nodes: { "node-1": true, "node-2": true, "node-3": true },
    pods: [runningPod("node-1"), runningPod("node-2")],
    exec: (pod) => ({
      stdout: pod === "sluice-node-1"
        ? statusOutput({ linkState: { tone: "good", words: "connected" } })
        : statusOutput(
          { inOrder: false, state: { tone: "bad", words: "failing \x1b[2J", reason: "no such\nchain" } },
          { total: 5, services: ["a", "b", "c", "d"].map((name) => ({ name: `shop/${name}:http` })) },
        ),
    }),
  });
  assert.deepEqual(clusterLines(reports, PLAIN), [
    "● 3 nodes: 1 not in order, 1 without a pod of Sluice",
    "NODE    VERSION  MODE      STATE         ATTENTION                                      LINK       SINCE  REASON",
    "node-2  0.2.0    nftables  failing  [2J  shop/a:http, shop/b:http, shop/c:http, 2 more  -          60 s   no such chain",
    "node-3  -        -         no pod        -                                              -          -",
    "node-1  0.2.0    nftables  all in sync   none                                           connected  60 s",
  ]);
});

Deno.test("the verdict is as bad as the worst node", async () => {
  const cases: readonly (readonly [nodes: readonly string[], code: string])[] = [
    [["good"], "32"],
    [["good", "without"], "2"],
    [["good", "without", "silent"], "31"],
    [["good", "failing"], "31"],
  ];
  for (const [nodes, code] of cases) {
    const reports = await survey({
      nodes: Object.fromEntries(nodes.map((name) => [name, true])),
      pods: nodes.filter((name) => name !== "without").map((name) => runningPod(name)),
      exec: (pod) =>
        pod === "sluice-silent"
          ? { exitCode: 1, stderr: "error dialing backend" }
          : { stdout: statusOutput({ inOrder: pod !== "sluice-failing" }) },
    });
    const [verdict] = clusterLines(reports, { columns: Infinity, colour: true });
    assert.ok(verdict!.startsWith(`\x1b[${code}m● `), JSON.stringify(verdict));
  }
});
