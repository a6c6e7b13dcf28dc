import type { Backend, BackendOptions } from "../../../../backends/contract/backend.ts";
import { createIptablesBackend } from "../../../../backends/iptables/backend.ts";
import type { Family, FamilyDelta, FamilySettings, ServicePort, ServicePortKey } from "../../../../core/model/mod.ts";
import { createLogger } from "../../../../platform/log.ts";
import { createFakeClock, type FakeClock, promisesSettled } from "../../../fakes/clock.ts";
import { createFakeRunner, type FakeRunner, type Flavour, type Surroundings } from "../../../fakes/runner.ts";
import { fakeSettings } from "../../../fakes/service_port.ts";

/** An in-memory kernel and its clock. */
export interface Host {
  readonly runner: FakeRunner;
  readonly clock: FakeClock;
}

/** A backend with an in-memory kernel. */
export interface BackendUnderTest extends Host {
  readonly backend: Backend;
  /** Syncs a full snapshot. */
  snapshot(ports: readonly ServicePort[], settings?: FamilySettings): ReturnType<Backend["sync"]>;
  /** Syncs a delta. */
  change(set: readonly ServicePort[], deleted?: readonly ServicePortKey[]): ReturnType<Backend["sync"]>;
  /** The inputs of iptables-restore since the last call. */
  takeInputs(): string[];
}

/** Options of `createHost`. */
export interface HostOptions {
  /** Whether the kernel has xt_bpf; true by default. */
  readonly bpf?: boolean;
  readonly surroundings?: Partial<Surroundings>;
  /** nf_tables by default. */
  readonly flavour?: Flavour;
}

/** Creates the backend under test. */
type Create = (options: BackendOptions) => Backend;

/** Creates a host with an empty kernel. */
export function createHost({ bpf = true, surroundings, flavour }: HostOptions = {}): Host {
  const clock = createFakeClock();
  const runner = createFakeRunner({ clock, surroundings, flavour });
  if (!bpf) {
    const stderr = "iptables-restore v1.8.9 (nf_tables): \nline 3: RULE_APPEND failed (No such file or directory)\n";
    runner.inject(({ stdin }) => stdin.includes("-m bpf"), { how: "exits", exitCode: 4, stderr });
  }
  return { runner, clock };
}

/** The settings of a node with pods in 10.244.1.0/24; `changes` override fields. */
export function podSettings(changes: Partial<FamilySettings> = {}): FamilySettings {
  return fakeSettings({ localTraffic: { by: "source-prefix", prefix: "10.244.1.0/24" }, ...changes });
}

/** Creates a backend on a host and runs its setup. */
export async function backendUnderTest(
  host: Host = createHost(),
  family: Family = "IPv4",
  create: Create = createIptablesBackend,
): Promise<BackendUnderTest> {
  const { runner, clock } = host;
  const logger = createLogger({ level: "error", format: "text", clock, write: () => {} });
  const backend = create({ family, runner, clock, logger });
  await backend.setup();
  runner.forgetCalls();
  let revision = 0;
  // What a sync starts and does not await has ended, too.
  const send = (delta: Omit<FamilyDelta, "revision">) =>
    backend.sync({ ...delta, revision: ++revision }).finally(promisesSettled);
  return {
    ...host,
    backend,
    snapshot: (set, settings = podSettings()) => send({ base: undefined, settings, set, deleted: [] }),
    change: (set, deleted = []) => send({ base: revision, settings: undefined, set, deleted }),
    takeInputs() {
      const inputs = runner.calls.filter(({ tool }) => tool.endsWith("-restore")).map(({ stdin }) => stdin);
      runner.forgetCalls();
      return inputs;
    },
  };
}

/** Changes the rules as another program would. Throws if the tool refuses the change. */
export async function tamper({ runner }: Host, ...lines: readonly string[]): Promise<void> {
  const call = { tool: "iptables-restore", args: ["--noflush", "-w", "5"], stdin: [`${lines.join("\n")}\n`] };
  const { exitCode, stderr } = await runner.run(call);
  if (exitCode !== 0) throw new Error(stderr);
}
