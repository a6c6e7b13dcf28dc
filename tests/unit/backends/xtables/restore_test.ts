import assert from "node:assert/strict";
import { isHostFailure } from "../../../../backends/tools/failure.ts";
import {
  createIptablesTools,
  failedLines,
  lineOf,
  type RestoreInput,
  restoreLines,
} from "../../../../backends/xtables/tools.ts";

const rendered = (rules: string[], owner?: string) => ({ rules, jumps: 0, ownerOf: () => owner });
const INPUT: RestoreInput = {
  updates: [
    {
      table: "nat",
      chain: "KUBE-SVC-A",
      action: "write",
      rendered: rendered(["-j ONE", "-j TWO"], "default/a|tcp"),
      hash: 1,
    },
    {
      table: "nat",
      chain: "KUBE-SVC-C",
      action: "write",
      rendered: rendered(["-j THREE"], "default/c|tcp"),
      hash: 3,
    },
    { table: "filter", chain: "KUBE-FORWARD", action: "write", rendered: rendered(["-j ACCEPT"]), hash: 2 },
    { table: "nat", chain: "KUBE-SVC-B", action: "delete" },
  ],
  jumps: [{ table: "nat", from: "PREROUTING", rule: "-j KUBE-SERVICES" }],
};

Deno.test("an input names chains in descending order, fills them in its own, inserts jumps, and then deletes chains, table by table", () => {
  assert.equal(
    [...restoreLines(INPUT)].join(""),
    `*filter
:KUBE-FORWARD - [0:0]
-A KUBE-FORWARD -j ACCEPT
COMMIT
*nat
:KUBE-SVC-C - [0:0]
:KUBE-SVC-B - [0:0]
:KUBE-SVC-A - [0:0]
-A KUBE-SVC-A -j ONE
-A KUBE-SVC-A -j TWO
-A KUBE-SVC-C -j THREE
-I PREROUTING -j KUBE-SERVICES
-X KUBE-SVC-B
COMMIT
`,
  );
});

Deno.test("a line number leads to the line's text and its service port", () => {
  assert.deepEqual(lineOf(INPUT, 10), { text: "-A KUBE-SVC-A -j TWO", owner: "default/a|tcp" });
  assert.deepEqual(lineOf(INPUT, 3), { text: "-A KUBE-FORWARD -j ACCEPT", owner: undefined });
  assert.equal(lineOf(INPUT, 99), undefined);
});

Deno.test("line numbers are found in the messages of each flavour", () => {
  assert.deepEqual(
    failedLines(
      "iptables-restore v1.8.9 (nf_tables): \nline 4: CHAIN_ADD failed (No such file)\nline 7: RULE_APPEND failed",
    ),
    [4, 7],
  );
  assert.deepEqual(
    failedLines('iptables-restore v1.8.9 (legacy): Bad IP address "x"\n\nError occurred at line: 3\nTry more.'),
    [3],
  );
  assert.deepEqual(failedLines("iptables-restore: line 12 failed"), [12]);
  assert.deepEqual(failedLines("Killed"), []);
});

Deno.test("a held lock, a signal and a lack of memory are failures of the host", async () => {
  const fails = async (stderr: string, exitCode = 4) => {
    const runner = { run: () => Promise.resolve({ exitCode, stdout: "", stderr }) };
    return isHostFailure((await createIptablesTools("IPv4", runner).restore({ updates: [] }))!);
  };
  assert.equal(await fails("Another app is currently holding the xtables lock; still 2s 0us time ahead"), true);
  assert.equal(await fails("line 3: RULE_APPEND failed (No buffer space available)"), true);
  assert.equal(await fails("", 137), true);
  assert.equal(await fails("line 3: RULE_APPEND failed (No such file or directory)"), false);
});
