import type { Backend, SyncResult } from "../../backends/contract/backend.ts";
import type { FamilyDelta, FamilySettings, ServicePort, ServicePortKey } from "../../core/model/mod.ts";
import { servicePortKey } from "../../core/model/mod.ts";

/** A backend that keeps its contract over a kernel that is a Map. */
export interface FakeBackend extends Backend {
  /** What was called, in order: `setup`, `sync 1`, `sync 1 whole`, `resync`, `cleanup`. */
  readonly calls: string[];
  /** What is in effect. */
  readonly kernel: ReadonlyMap<ServicePortKey, ServicePort>;
  /** The settings in effect. */
  kernelSettings(): FamilySettings | undefined;
  /** The next calls fail, each with one of these. */
  failNext(...errors: Error[]): void;
  /** What the next syncs that work return; nothing to complain of where there is none. */
  returnNext(...results: SyncResult[]): void;
  /** Calls do not end before the returned function is called. */
  hold(): () => void;
}

/** A backend whose kernel is empty. */
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
  const bringAbout = (): SyncResult => {
    kernel.clear();
    for (const [key, port] of desired) kernel.set(key, port);
    kernelSettings = desiredSettings;
    return results.shift() ?? { problems: [], figures: {} };
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
      await work(`sync ${delta.revision}${delta.base === undefined ? " whole" : ""}`);
      return bringAbout();
    },
    async resync() {
      await work("resync");
      return bringAbout();
    },
    async cleanup() {
      await work("cleanup");
      desired.clear();
      kernel.clear();
    },
  };
}
