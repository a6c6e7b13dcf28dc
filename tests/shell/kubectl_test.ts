/** `kubectl sluice` with a kubectl that is a script on the PATH. */
import assert from "node:assert/strict";

/** Answers by pod: one in order, one broken, one hanging, one forbidden, one of an older version. */
const KUBECTL = `#!/bin/bash
echo "$KUBECONFIG $*" >> "$CALLS"
case "$*" in
  *"get nodes "*) printf '%s\\tTrue\\n' n1 n2 n3 n4 n5 n6; exit ;;
  *"get pods "*) for i in 1 2 3 4 5; do printf "n$i\\tpod-$i\\tRunning\\t\\t\\t\\t2026-01-01T00:00:00Z\\n"; done; exit ;;
esac
summary() { echo '{"status":{"version":"0.2.0","mode":"iptables","atMs":1,"inOrder":'$1',"state":{"tone":"'$2'","words":"'"$3"'"}}}'; }
ended() { echo "command terminated with exit code $1" >&2; exit $1; }
case "$*" in
  *"exec pod-1 "*" sluice status "*) summary true good "all in sync" ;;
  *"exec pod-1 "*" sluice diff "*) printf 'IPv4 \\e[2Jnat differs\\n'; echo "sluice: answered by the proxy" >&2; ended 1 ;;
  *"exec pod-2 "*) summary false bad "behind"; ended 1 ;;
  *"exec pod-3 "*) exec sleep 60 ;;
  *"exec pod-4 "*) echo 'Error from server (Forbidden): pods "pod-4" is forbidden' >&2; exit 1 ;;
  *"exec pod-5 "*) echo '{"status":{"version":"0.1.0","mode":"iptables","healthy":true}}' ;;
esac
`;

interface Result {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
  /** The command lines of kubectl, after its KUBECONFIG. */
  readonly calls: readonly string[];
}

/** Runs `sluice cluster` with the script; `isInstalled` says whether it is on the PATH. */
async function sluice(args: readonly string[], isInstalled = true): Promise<Result> {
  const folder = await Deno.makeTempDir();
  try {
    if (isInstalled) await Deno.writeTextFile(`${folder}/kubectl`, KUBECTL, { mode: 0o755 });
    await Deno.writeTextFile(`${folder}/calls`, "");
    const main = new URL("../../main.ts", import.meta.url).pathname;
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "--quiet", "--no-check", "--unstable-net", "-A", main, "cluster", ...args],
      env: {
        PATH: isInstalled ? `${folder}:${Deno.env.get("PATH")}` : folder,
        CALLS: `${folder}/calls`,
        KUBECONFIG: "/home/kubeconfig",
        NO_COLOR: "1",
      },
    }).output();
    const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
    const calls = (await Deno.readTextFile(`${folder}/calls`)).trimEnd().split("\n");
    return { status: code, stdout: text(stdout), stderr: text(stderr), calls };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("kubectl sluice status shows every node, also those that hang, are forbidden or older", async () => {
  const { status, stdout, stderr, calls } = await sluice(["status", "--timeout", "4s", "--context", "test"]);
  assert.equal(status, 1, stderr);
  const [verdict, , ...rows] = stdout.trimEnd().split("\n").map((line) => line.replace(/ {2,}/g, "  "));
  assert.equal(verdict, "● 6 nodes: 1 not in order, 2 without an answer, 1 without a pod of Sluice");
  assert.deepEqual(rows, [
    "n2  0.2.0  iptables  behind  -  -  -",
    "n3  -  -  no answer: timeout after 4 s  -  -  -",
    'n4  -  -  no answer: forbidden  -  -  -  Error from server (Forbidden): pods "pod-4" is forbidden',
    "n5  0.1.0  iptables  healthy  -  -  -  Sluice 0.1.0 sends no more; run sluice status on the node",
    "n6  -  -  no pod  -  -  -",
    "n1  0.2.0  iptables  all in sync  -  -  -",
  ]);
  assert.match(stderr, /^sluice: .*\n$/);
  assert.ok(calls.every((call) => call.startsWith("/home/kubeconfig --context=test ")), calls.join("\n"));
  assert.ok(
    calls.includes("/home/kubeconfig --context=test exec pod-1 --namespace kube-system -- sluice status --output json"),
  );
});

Deno.test("a command on one node prints its output and ends with its exit status", async () => {
  const { status, stdout, stderr, calls } = await sluice(
    [
      "diff",
      "--node",
      "n1",
      "-n",
      "net",
      "--family",
      "IPv4",
      "--as",
      "ann",
      "--as-group",
      "dev",
      "--as-group",
      "cn=ops,ou=eu",
    ],
  );
  assert.deepEqual([status, stdout, stderr], [1, "IPv4  [2Jnat differs\n", "sluice: answered by the proxy\n"]);
  const as = "--as=ann --as-group=dev --as-group=cn=ops,ou=eu";
  assert.equal(calls.at(-1), `/home/kubeconfig ${as} exec pod-1 --namespace net -- sluice diff --family=IPv4`);
});

Deno.test("of the events of a node, those so far are printed: a pod would go on with the others", async () => {
  const { calls } = await sluice(["events", "--node", "n1"]);
  assert.ok(calls.at(-1)!.endsWith(" exec pod-1 --namespace kube-system -- sluice events --once=true"), calls.at(-1));
});

Deno.test("a node that cannot be asked is named with the cause", async () => {
  const messages: readonly (readonly [node: string, status: number, stderr: RegExp])[] = [
    ["n4", 3, /^sluice: node n4 does not answer: forbidden: Error from server/],
    [
      "n6",
      3,
      /^sluice: node n6 has no pod with the labels app\.kubernetes\.io\/name=sluice in namespace kube-system\n/,
    ],
    ["n7", 2, /^sluice: there is no node "n7"; did you mean n1/],
  ];
  for (const [node, expected, message] of messages) {
    const { status, stderr } = await sluice(["explain", "default/web", "--node", node]);
    assert.equal(status, expected);
    assert.match(stderr, message);
  }
  const { status, stderr } = await sluice(["status"], false);
  assert.equal(status, 3);
  assert.match(stderr, /^sluice: cannot list Sluice's pods: kubectl is not on the PATH/);
});
