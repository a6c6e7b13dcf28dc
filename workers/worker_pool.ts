/** The workers of both families; each one can restart the other. */
import { FAMILIES, type Family, otherFamily, type WorkerListener } from "../platform/mod.ts";
import type { FamilyHandle, FromWorker, ToWorker, WorkerCode } from "./protocol.ts";
import { createWebWorker, UNREADABLE } from "./web_worker.ts";

interface WorkerPoolOptions {
  readonly codeOf: (family: Family) => WorkerCode;
  /** The search path of the workers' tools. */
  readonly path: string;
  /** Called if no worker is left that could start another, or if a worker needs the program to restart. */
  readonly onLost: (reason: string) => void;
  /** Starts one of the first workers; a Web Worker by default. */
  readonly createWorker?: (code: WorkerCode, onFailure: (reason: string) => void) => FirstWorker;
}

/** The part of a Web Worker that is used. */
export type FirstWorker = Pick<Worker, "postMessage" | "terminate" | "onmessage">;

interface PooledWorker {
  readonly number: number;
  readonly family: Family;
  /** The sibling that started it and whose end also ends it; undefined for the first workers. */
  readonly starter: PooledWorker | undefined;
  readonly post: (message: ToWorker, transfer?: Transferable[]) => void;
  readonly end: () => void;
  listener: WorkerListener<FromWorker> | undefined;
  isAlive: boolean;
  /** Whether it was stopped for good, so that its end is expected. */
  isStopping: boolean;
  /** Whether it is about to end because its family has no services; its sibling has to stay. */
  isResting: boolean;
  /** Whether it ends as soon as the sibling that it started has ended. */
  isRemoved: boolean;
}

interface PoolState {
  readonly options: WorkerPoolOptions;
  readonly workers: Map<Family, PooledWorker>;
  /** Failures of the first workers before they had a listener. */
  readonly earlyFailures: Map<PooledWorker, string>;
  numbers: number;
  isLost: boolean;
}

/**
 * Starts both families' workers. From then on this isolate does not need the permission to start programs, and should drop it:
 * a worker that dies or hangs is restarted by its sibling, and communicates with this isolate over its own port. A worker that
 * its sibling started ends with that sibling. Throws if this program may not run the tools.
 *
 * The returned function gives a worker to a family: first the one that exists, later one that the other family's worker
 * starts. It throws if no worker is left that could start it.
 */
export function createWorkerPool(
  options: WorkerPoolOptions,
): (family: Family, listener: WorkerListener<FromWorker>) => FamilyHandle {
  const pool: PoolState = { options, workers: new Map(), earlyFailures: new Map(), numbers: 0, isLost: false };
  for (const family of FAMILIES) startFirst(pool, family);

  return (family, listener) => {
    const present = pool.workers.get(family)!;
    // A worker that was about to stop may have stayed for the sibling that it started.
    const isFree = present.listener === undefined || present.isAlive && present.isRemoved;
    const worker = isFree ? present : startSuccessor(pool, family);
    worker.isResting = worker.isRemoved = false;
    worker.listener = listener;
    const reason = pool.earlyFailures.get(worker);
    if (reason !== undefined) queueMicrotask(() => reportFailure(pool, worker, reason));
    return handleOf(pool, worker);
  };
}

function handleOf(pool: PoolState, worker: PooledWorker): FamilyHandle {
  return {
    post(message) {
      if (message.type === "stop") worker.isStopping = !message.keepWorker;
      worker.post(message);
    },
    terminate: () => remove(pool, worker),
    release() {
      worker.listener = undefined;
    },
    beginRest: () => worker.isResting = mayRest(pool, worker),
  };
}

function startFirst(pool: PoolState, family: Family): void {
  const { codeOf, path, createWorker = createWebWorker } = pool.options;
  const web = createWorker(codeOf(family), (reason) => reportFailure(pool, worker, reason));
  const worker = add(pool, family, {
    number: ++pool.numbers,
    starter: undefined,
    post: (message, transfer = []) => web.postMessage(message, transfer),
    end: () => web.terminate(),
  });
  web.onmessage = ({ data }: MessageEvent<FromWorker>) => receive(pool, worker, data);
  worker.post({ type: "role", family, path });
}

function startSuccessor(pool: PoolState, family: Family): PooledWorker {
  const starter = pool.workers.get(otherFamily(family))!;
  if (!starter.isAlive) throw new Error("no worker is left to start it: the other family's worker is gone, too");
  const { port1, port2 } = new MessageChannel();
  const number = ++pool.numbers;
  const worker = add(pool, family, {
    number,
    starter,
    post: (message) => port1.postMessage(message),
    end() {
      port1.close();
      if (starter.isAlive) starter.post({ type: "end-sibling" });
    },
  });
  port1.onmessage = ({ data }: MessageEvent<FromWorker>) => receive(pool, worker, data);
  port1.onmessageerror = () => reportFailure(pool, worker, UNREADABLE);
  starter.post({ type: "start-sibling", number, port: port2 }, [port2]);
  return worker;
}

type WorkerParts = Pick<PooledWorker, "post" | "end" | "starter" | "number">;

function add({ workers }: PoolState, family: Family, parts: WorkerParts): PooledWorker {
  const flags = { isAlive: true, isStopping: false, isResting: false, isRemoved: false };
  const worker: PooledWorker = { family, listener: undefined, ...flags, ...parts };
  workers.set(family, worker);
  return worker;
}

function receive(pool: PoolState, worker: PooledWorker, message: FromWorker): void {
  if (message.type === "restart-needed") return lose(pool, message.reason);
  if (message.type !== "sibling-failed") return worker.listener?.onMessage(message);
  for (const other of pool.workers.values()) {
    if (other.number === message.number) reportFailure(pool, other, message.reason);
  }
}

function reportFailure({ earlyFailures }: PoolState, worker: PooledWorker, reason: string): void {
  if (!worker.isAlive) return;
  if (worker.listener) worker.listener.onFailure(reason);
  else earlyFailures.set(worker, reason);
}

function remove(pool: PoolState, worker: PooledWorker): void {
  const started = [...pool.workers.values()].find(({ starter, isAlive }) => starter === worker && isAlive);
  if (!worker.isAlive) return;
  if (started && (worker.isStopping || worker.isResting)) {
    worker.isRemoved = true;
    return;
  }
  worker.isAlive = false;
  worker.end();
  if (started) reportFailure(pool, started, `the ${worker.family} worker, which had started it, is gone`);
  if (worker.starter?.isRemoved) remove(pool, worker.starter);
  if ([...pool.workers.values()].every(({ isAlive, isStopping }) => !isAlive && !isStopping)) {
    lose(pool, "no worker is left that could start another; the rules stay");
  }
}

function lose(pool: PoolState, reason: string): void {
  if (pool.isLost) return;
  pool.isLost = true;
  pool.options.onLost(reason);
}

// Its sibling must be able to start it again, and must not end with it.
function mayRest({ workers }: PoolState, worker: PooledWorker): boolean {
  const sibling = workers.get(otherFamily(worker.family))!;
  return sibling.isAlive && !sibling.isResting && sibling.starter !== worker;
}
