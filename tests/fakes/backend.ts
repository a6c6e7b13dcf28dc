import type { Backend, SyncResult } from "../../backends/contract/backend.ts";
import type { FamilyDelta, FamilySettings, ServicePort, ServicePortKey } from "../../core/model/mod.ts";
import { servicePortKey } from "../../core/model/mod.ts";

/** A backend that fulfils its contract with a Map as the kernel. */
export interface FakeBackend extends Backend {
  /** The calls in order: `setup`, `sync 1`, `sync 1 snapshot`, `resync`, `resync after a fault`, `cleanup`. */
  readonly calls: string[];
  /** The service ports in effect. */
  readonly kernel: ReadonlyMap<ServicePortKey, ServicePort>;
  /** The settings in effect. */
  kernelSettings(): FamilySettings | undefined;
  /** Makes the next calls fail, each with one of these errors. */
  failNext(...errors: Error[]): void;
  /** The results of the next successful syncs; without problems by default. */
  returnNext(...results: SyncResult[]): void;
  /** Blocks calls until the returned function is called. */
  hold(): () => void;
}

/** Creates a backend with an empty kernel. */
export function createFakeBackend(): FakeBackend {
  const calls: string[] = [];
  const desired = new Map<ServicePortKey, ServicePort>();
  const kernel = new Map<ServicePortKey, ServicePort>();
  let desiredSettings: FamilySettings | undefined;
  let kernelSettings: FamilySettings | undefined;
  const errors: Error[] = [];
  const results: SyncResult[] = [];
  let held: Promise<void> = Promise.resolve();

  const work = async (call: string): Promise<void> => {
    calls.push(call);
    await held;
    const error = errors.shift();
    if (error) throw error;
  };
  const applyDesired = (): SyncResult => {
    kernel.clear();
    for (const [key, port] of desired) kernel.set(key, port);
    kernelSettings = desiredSettings;
    return results.shift() ?? { problems: [], counts: {} };
  };

  return {
    calls,
    kernel,
    kernelSettings: () => kernelSettings,
    failNext: (...next) => void errors.push(...next),
    returnNext: (...next) => void results.push(...next),
    hold() {
      const { promise, resolve } = Promise.withResolvers<void>();
      held = promise;
      return resolve;
    },
    setup: () => work("setup"),
    async sync(delta: FamilyDelta) {
      if (delta.base === undefined) desired.clear();
      for (const port of delta.set) desired.set(servicePortKey(port.name, port.protocol), port);
      for (const key of delta.deleted) desired.delete(key);
      desiredSettings = delta.settings ?? desiredSettings;
      await work(`sync ${delta.revision}${delta.base === undefined ? " snapshot" : ""}`);
      return applyDesired();
    },
    async resync(cause) {
      await work(cause === "fault" ? "resync after a fault" : "resync");
      return applyDesired();
    },
    async cleanup() {
      await work("cleanup");
      desired.clear();
      kernel.clear();
    },
  };
}
