import assert from "node:assert/strict";
import { type Backend, UnsupportedHostError } from "../../../../backends/contract/backend.ts";
import { createIptablesBackend } from "../../../../backends/iptables/mod.ts";
import { createNftablesBackend } from "../../../../backends/nftables/mod.ts";
import { classifyFailure } from "../../../../backends/tools/failure.ts";
import type { Runner, ToolResult } from "../../../../backends/tools/runner.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { createFakeNftHost } from "../../../fakes/nft_runner.ts";
import { createFakeRunner } from "../../../fakes/runner.ts";

const CREATORS = { iptables: createIptablesBackend, nftables: createNftablesBackend };
const RUNNERS = { iptables: createFakeRunner, nftables: () => createFakeNftHost().runner };

/** A backend whose tools fail in this way as long as the test says; `fails` is asked before each run. */
function backendOf(mode: keyof typeof CREATORS, failure: Omit<ToolResult, "stdout">, fails: (run: number) => boolean) {
  const real = RUNNERS[mode]();
  let runs = 0;
  const runner: Runner = {
    async run(call) {
      if (!fails(++runs)) return await real.run(call);
      await Promise.resolve();
      return { stdout: "", ...failure };
    },
  };
  return CREATORS[mode]({ family: "IPv4", runner, clock: createFakeClock(), logger: silentLogger });
}

async function errorOf(backend: Backend): Promise<unknown> {
  return await backend.setup().then(() => undefined, (error: unknown) => error);
}

const TRANSIENT: Readonly<Record<string, Omit<ToolResult, "stdout">>> = {
  "says nothing": { exitCode: 1, stderr: "" },
  "is killed": { exitCode: 137, stderr: "" },
  "lacks memory": { exitCode: 1, stderr: "Error: Could not process rule: Cannot allocate memory" },
  "finds no buffer": { exitCode: 4, stderr: "iptables-restore: line 3 failed: No buffer space available" },
};

for (const mode of ["iptables", "nftables"] as const) {
  for (const [how, failure] of Object.entries(TRANSIENT)) {
    Deno.test(`${mode}: a tool that ${how} does not make a host an unsupported one`, async () => {
      // Two of three runs fail: the third try of each is the one that counts.
      assert.equal(await errorOf(backendOf(mode, failure, (run) => run % 3 !== 0)), undefined);
      const error = await errorOf(backendOf(mode, failure, () => true));
      assert.ok(error instanceof Error && !(error instanceof UnsupportedHostError), String(error));
    });
  }

  Deno.test(`${mode}: a tool that says that the kernel lacks something makes a host an unsupported one`, async () => {
    const stderr = mode === "iptables"
      ? "iptables v1.8.9 (legacy): can't initialize iptables table `nat': Table does not exist"
      : "/dev/stdin:2:1-9: Error: Could not process rule: Operation not supported";
    const fails = mode === "iptables" ? (run: number) => run > 1 : (run: number) => run > 1;
    assert.ok(await errorOf(backendOf(mode, { exitCode: 3, stderr }, fails)) instanceof UnsupportedHostError);
  });
}

Deno.test("a feature of iptables is not given up for a lack of memory", async () => {
  const real = createFakeRunner();
  real.inject(({ stdin }) => stdin.includes("-m bpf"), TRANSIENT_RESTORE);
  const backend = createIptablesBackend({
    family: "IPv4",
    runner: real,
    clock: createFakeClock(),
    logger: silentLogger,
  });
  const error = await errorOf(backend);
  assert.match(String(error), /could not be found out what iptables can do: .*Cannot allocate memory/);
});

const TRANSIENT_RESTORE = { how: "exits", exitCode: 4, stderr: "RULE_APPEND failed (Cannot allocate memory)" } as const;

Deno.test("what tools say of features is told from what they say of their luck", () => {
  for (
    const refused of [
      "ip6tables v1.8.9 (legacy): can't initialize ip6tables table `nat': Table does not exist (do you need to insmod?)",
      "iptables-restore v1.8.9 (nf_tables): Couldn't load match `bpf':No such file or directory",
      "line 3: RULE_APPEND failed (No such file or directory): rule in chain KUBE-SVC-TRIAL",
      'iptables-restore v1.6.0: unknown option "--random-fully"',
      "Error: Could not process rule: Operation not supported",
      "Error: syntax error, unexpected numgen",
      "socket: Address family not supported by protocol",
    ]
  ) assert.equal(classifyFailure(refused), "unsupported", refused);
  for (
    const unlucky of [
      "",
      "Another app is currently holding the xtables lock",
      "Error: Could not process rule: Device or resource busy",
      "iptables: Unknown error 18446744073709551615",
      "netlink: Error: Could not process rule: Message too long",
      "iptables: Resource temporarily unavailable.",
      "Could not fetch rule set generation id: Permission denied (you must be root)",
    ]
  ) assert.notEqual(classifyFailure(unlucky), "unsupported", unlucky);
});
