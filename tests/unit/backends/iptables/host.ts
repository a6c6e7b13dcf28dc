import type { Backend } from "../../../../backends/contract/backend.ts";
import { createIptablesBackend } from "../../../../backends/iptables/backend.ts";
import type { Family, FamilyDelta, FamilySettings, ServicePort, ServicePortKey } from "../../../../core/model/mod.ts";
import { createLogger } from "../../../../platform/log.ts";
import { createFakeClock, type FakeClock } from "../../../fakes/clock.ts";
import { createFakeRunner, type FakeRunner, type Surroundings } from "../../../fakes/runner.ts";
import { fakeSettings } from "../../../fakes/service_port.ts";

/** A kernel in memory, and the time there. */
export interface Host {
  readonly runner: FakeRunner;
  readonly clock: FakeClock;
}

/** A backend on a kernel in memory. */
export interface BackendUnderTest extends Host {
  readonly backend: Backend;
  /** Sends a whole state. */
  whole(ports: readonly ServicePort[], settings?: FamilySettings): ReturnType<Backend["sync"]>;
  /** Sends what has changed. */
  change(set: readonly ServicePort[], deleted?: readonly ServicePortKey[]): ReturnType<Backend["sync"]>;
  /** The inputs that iptables-restore got since this was last asked. */
  takeInputs(): string[];
}

/** What is special about a host. */
export interface HostOptions {
  /** Whether the kernel has xt_bpf; it does by default. */
  readonly bpf?: boolean;
  readonly surroundings?: Partial<Surroundings>;
}

/** A kernel without a rule. */
export function createHost({ bpf = true, surroundings }: HostOptions = {}): Host {
  const clock = createFakeClock();
  const runner = createFakeRunner({ clock, surroundings });
  if (!bpf) {
    const stderr = "iptables-restore v1.8.9 (nf_tables): \nline 3: RULE_APPEND failed (No such file or directory)\n";
    runner.inject(({ stdin }) => stdin.includes("-m bpf"), { how: "exits", exitCode: 4, stderr });
  }
  return { runner, clock };
}

/** The settings of a node whose pods are in 10.244.1.0/24; `changes` say what differs. */
export function podSettings(changes: Partial<FamilySettings> = {}): FamilySettings {
  return fakeSettings({ localTraffic: { by: "source-prefix", prefix: "10.244.1.0/24" }, ...changes });
}

/** A backend that is set up, on a host. */
export async function backendUnderTest(host: Host = createHost(), family: Family = "IPv4"): Promise<BackendUnderTest> {
  const { runner, clock } = host;
  const logger = createLogger({ level: "error", format: "text", clock, write: () => {} });
  const backend = createIptablesBackend({ family, runner, clock, logger });
  await backend.setup();
  runner.forgetCalls();
  let revision = 0;
  const send = (delta: Omit<FamilyDelta, "revision">) => backend.sync({ ...delta, revision: ++revision });
  return {
    ...host,
    backend,
    whole: (set, settings = podSettings()) => send({ base: undefined, settings, set, deleted: [] }),
    change: (set, deleted = []) => send({ base: revision, settings: undefined, set, deleted }),
    takeInputs() {
      const inputs = runner.calls.filter(({ tool }) => tool.endsWith("-restore")).map(({ stdin }) => stdin);
      runner.forgetCalls();
      return inputs;
    },
  };
}

/** Changes the rules as another program does. Throws where the tool refuses it. */
export async function meddle({ runner }: Host, ...lines: readonly string[]): Promise<void> {
  const call = { tool: "iptables-restore", args: ["--noflush", "-w", "5"], stdin: [`${lines.join("\n")}\n`] };
  const { exitCode, stderr } = await runner.run(call);
  if (exitCode !== 0) throw new Error(stderr);
}
