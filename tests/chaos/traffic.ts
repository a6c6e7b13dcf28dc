/**
 * Generates traffic in the network namespace where it is started:
 *
 *     traffic.ts echo ADDRESS PORT       runs an echo server
 *     traffic.ts probe JSON              opens connections to the targets of ProbeOptions in turn
 *     traffic.ts hold ADDRESS PORT       keeps one connection to an echo server busy
 *
 * `probe` and `hold` print a Tally as JSON when their standard input ends.
 */
import { sleep, systemClock } from "../../platform/clock.ts";
import { TIMEOUT_FACTOR } from "./wait.ts";

/** Options of `probe`. */
export interface ProbeOptions {
  readonly targets: readonly { readonly hostname: string; readonly port: number }[];
  /** The number of concurrent connections. */
  readonly atOnce: number;
  /** The pause after each connection. */
  readonly restMs: number;
  /**
   * The time after which a connection that is not established counts as failed; below TCP's first retransmission after a second.
   * Time in which this process did not run is not counted, because the kernel answers meanwhile.
   */
  readonly timeoutMs: number;
}

/** The results of all connections. */
export interface Tally {
  readonly attempts: number;
  readonly failures: number;
  /** The first failures. */
  readonly examples: readonly string[];
  readonly slowestMs: number;
}

const ANSWER_LIMIT_MS = 5000 * TIMEOUT_FACTOR;
const TICK_MS = 20;
const HOLD_REST_MS = 20;
const CONNECT_TRIES = 250;

async function echo(hostname: string, port: number): Promise<void> {
  for await (const connection of Deno.listen({ hostname, port })) {
    connection.readable.pipeTo(connection.writable).catch(() => {});
  }
}

function createTally() {
  const tally = { attempts: 0, failures: 0, examples: [] as string[], slowestMs: 0 };
  return {
    tally,
    count(tookMs: number, failure: string | undefined) {
      tally.attempts++;
      tally.slowestMs = Math.max(tally.slowestMs, Math.round(tookMs));
      if (failure === undefined) return;
      tally.failures++;
      if (tally.examples.length < 10) tally.examples.push(`${new Date(systemClock.now()).toISOString()} ${failure}`);
    },
  };
}

/** Rejects if work takes longer, by this clock. */
async function within<T>(timeoutMs: number, work: Promise<T>, now = systemClock.monotonic): Promise<T> {
  const late = Promise.withResolvers<never>();
  const endMs = now() + timeoutMs;
  let cancel = () => {};
  const check = () => {
    const leftMs = endMs - now();
    if (leftMs <= 0) late.reject(new Error(`not within ${timeoutMs} ms`));
    else cancel = systemClock.schedule(Math.max(leftMs, 1), check);
  };
  check();
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    cancel();
  }
}

/** Starts a clock that stands still while this process waits for a processor. */
function startRunningClock(): () => number {
  let stalledMs = 0, dueMs = systemClock.monotonic() + TICK_MS;
  const overdueMs = () => Math.max(0, systemClock.monotonic() - dueMs);
  const tick = () => {
    stalledMs += overdueMs();
    dueMs = systemClock.monotonic() + TICK_MS;
    systemClock.schedule(TICK_MS, tick);
  };
  systemClock.schedule(TICK_MS, tick);
  return () => systemClock.monotonic() - stalledMs - overdueMs();
}

async function probe({ targets, atOnce, restMs, timeoutMs }: ProbeOptions, ended: Promise<unknown>): Promise<Tally> {
  const { tally, count } = createTally();
  const now = startRunningClock();
  let over = false, next = 0;
  ended.then(() => over = true);
  await Promise.all(Array.from({ length: atOnce }, async () => {
    while (!over) {
      const target = targets[next++ % targets.length]!;
      const startedMs = systemClock.monotonic();
      const failure = await answerOf(target, (connecting) => within(timeoutMs, connecting, now)).then(
        (bytes) => bytes > 0 ? undefined : "no answer",
        (error) => String(error),
      );
      count(systemClock.monotonic() - startedMs, failure && `${target.hostname}:${target.port} ${failure}`);
      await sleep(systemClock, restMs);
    }
  }));
  return tally;
}

async function answerOf(
  target: { readonly hostname: string; readonly port: number },
  inTime: (connecting: Promise<Deno.TcpConn>) => Promise<Deno.TcpConn>,
): Promise<number> {
  const connecting = Deno.connect(target);
  using connection = await inTime(connecting).catch((error) => {
    connecting.then((late) => late.close(), () => {});
    throw error;
  });
  return await within(ANSWER_LIMIT_MS, connection.read(new Uint8Array(256))) ?? 0;
}

async function hold(hostname: string, port: number, ended: Promise<unknown>): Promise<Tally> {
  const { tally, count } = createTally();
  let over = false;
  ended.then(() => over = true);
  using connection = await connected({ hostname, port });
  const buffer = new Uint8Array(16);
  while (!over) {
    const startedMs = systemClock.monotonic();
    const failure = await within(
      ANSWER_LIMIT_MS,
      (async () => {
        await connection.write(new Uint8Array([42]));
        return await connection.read(buffer);
      })(),
    ).then((bytes) => bytes === 1 ? undefined : `${bytes} bytes came back`, (error) => String(error));
    count(systemClock.monotonic() - startedMs, failure);
    if (failure !== undefined) break;
    await sleep(systemClock, HOLD_REST_MS);
  }
  return tally;
}

/** Connects to a server that may still be starting. */
async function connected(target: { readonly hostname: string; readonly port: number }): Promise<Deno.TcpConn> {
  for (let tries = 1;; tries++) {
    try {
      return await Deno.connect(target);
    } catch (error) {
      if (tries === CONNECT_TRIES) throw error;
      await sleep(systemClock, HOLD_REST_MS);
    }
  }
}

async function inputEnds(): Promise<void> {
  for await (const _ of Deno.stdin.readable);
}

if (import.meta.main) {
  const [what, ...args] = Deno.args as [string, string, string];
  if (what === "echo") await echo(args[0], Number(args[1]));
  const tally = what === "probe"
    ? await probe(JSON.parse(args[0]), inputEnds())
    : await hold(args[0], Number(args[1]), inputEnds());
  console.log(JSON.stringify(tally));
  Deno.exit(0);
}
