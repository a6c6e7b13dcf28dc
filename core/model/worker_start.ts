import { FAMILIES, type Level } from "../../platform/mod.ts";
import * as shape from "../../platform/shapes/mod.ts";
import { IPVS_SETTINGS, PROXY_MODE } from "./family_settings.ts";

const KERNEL_SETTING = shape.record({
  /** `net.netfilter.nf_conntrack_max`. */
  name: shape.text(/./),
  value: shape.COUNT,
  /** Whether to keep a greater value. */
  atLeast: shape.optional(shape.oneOf(true)),
  /** Whether not to warn if it cannot be written. */
  mayFail: shape.optional(shape.oneOf(true)),
});

/** A sysctl and its wanted value. */
export type KernelSetting = shape.TypeOf<typeof KERNEL_SETTING>;

/** The start of a family's worker. */
export const WORKER_START = shape.record({
  family: shape.oneOf(...FAMILIES),
  mode: PROXY_MODE,
  /** Set only in ipvs mode. */
  ipvs: shape.optional(IPVS_SETTINGS),
  logLevel: shape.oneOf<Level>("error", "warn", "info", "debug", "trace"),
  logFormat: shape.oneOf("text", "json"),
  /** The host-wide sysctls that this worker sets after its setup; empty if the other family's worker sets them. */
  kernel: shape.list(KERNEL_SETTING),
  /** Whether the worker reports `ready` only after setting them. Serving never waits for them. */
  kernelFirst: shape.optional(shape.oneOf(true)),
});

/** See `WORKER_START`. */
export interface WorkerStart extends shape.TypeOf<typeof WORKER_START> {}
