import { createGrpcSource, type GrpcSourceOptions } from "../../../../sources/grpc/mod.ts";
import { systemClock } from "../../../../platform/clock.ts";
import { createLogger } from "../../../../platform/log.ts";
import type { Source } from "../../../../core/objects/mod.ts";
import type { FakeClock } from "../../../fakes/clock.ts";
import { passingDuring } from "../../../fakes/wait.ts";
import { createRecordingSink, type RecordingSink } from "../../../fakes/kpng.ts";

/**
 * Runs a source for a server at that port during `test`; `logged` has its log lines. The time of the clock `passes` while the
 * test awaits a line, and at the end.
 */
export async function withSource(
  port: number,
  test: (sink: RecordingSink, logged: readonly string[], source: Source) => Promise<void>,
  options: Partial<GrpcSourceOptions> = {},
  passes?: FakeClock,
): Promise<void> {
  const sink = createRecordingSink(passes);
  const stop = new AbortController();
  const logged: string[] = [];
  const source = createGrpcSource({
    addresses: [{ kind: "tcp", host: "127.0.0.1", port }],
    tls: undefined,
    scope: "global",
    nodeName: "node-1",
    inFull: false,
    clock: passes ?? systemClock,
    logger: createLogger({
      level: "info",
      format: "text",
      clock: systemClock,
      write: (line) => {
        logged.push(line);
        sink.problems(line, [{ code: "source-unreachable", subject: "log", detail: line }]);
      },
    }),
    backoff: { firstMs: 1, longestMs: 10 },
    ...options,
  });
  const ended = source.run(sink, stop.signal);
  try {
    await test(sink, logged, source);
  } finally {
    stop.abort();
    await (passes === undefined ? ended : passingDuring(passes, ended));
  }
}
