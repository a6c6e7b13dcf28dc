import type { CanaryStatus } from "./canary_status.ts";
import { readWhenShown, type Registry } from "./exposition.ts";

/** Registers the metrics of the canaries. `read` returns those that are placed. */
export function addCanaries(registry: Registry, read: () => readonly CanaryStatus[]): void {
  const each = (
    kind: "counter" | "gauge",
    name: string,
    help: string,
    value: (status: CanaryStatus) => number | undefined,
  ) =>
    readWhenShown(
      registry,
      kind,
      { name: `sluice_canary_${name}`, help, labels: ["ip_family"] },
      () =>
        read().flatMap((status) => {
          const shown = value(status);
          return shown === undefined ? [] : [[{ ip_family: status.family }, shown] as const];
        }),
    );
  each(
    "gauge",
    "up",
    "Whether packets of services flow on this node; absent while that is unknown",
    ({ state }) => state === "answering" ? 1 : state === "failing" ? 0 : undefined,
  );
  each("counter", "tries_total", "Tries of the canary", ({ tries }) => tries);
  each(
    "gauge",
    "last_answer_timestamp_seconds",
    "When the canary last answered, in seconds since 1970",
    ({ lastAnswerMs }) => lastAnswerMs === undefined ? undefined : lastAnswerMs / 1000,
  );
  each(
    "gauge",
    "duration_seconds",
    "How long the last answered try of the canary took",
    ({ durationMs }) => durationMs === undefined ? undefined : durationMs / 1000,
  );
  readWhenShown(
    registry,
    "counter",
    {
      name: "sluice_canary_failures_total",
      help: "Failed tries of the canary by cause",
      labels: ["ip_family", "cause"],
    },
    () =>
      read().flatMap(({ family, failures }) =>
        Object.entries(failures).map(([cause, count]) => [{ ip_family: family, cause }, count] as const)
      ),
  );
}
