import { type MetricsServerOptions, startMetricsServer, type StatusPage } from "../../observe/metrics_server.ts";
import { silentLogger } from "../../platform/log.ts";
import { createFakeClock } from "./clock.ts";

const shown = (body: string) => ({ status: 200, contentType: "text/html", body } as const);
/** A status page with fixed texts. */
export const STATUS_PAGE: StatusPage = {
  page: () => Promise.resolve(shown("the page")),
  live: () => Promise.resolve(shown("the news")),
};

/** Runs a test with a metrics server and its address (`127.0.0.1:port`). */
export async function withMetricsServer(
  test: (address: string) => Promise<void>,
  statusPage = () => Promise.resolve(STATUS_PAGE),
  options: Partial<MetricsServerOptions> = {},
): Promise<void> {
  const stop = new AbortController();
  const server = await startMetricsServer({
    bindAddress: "127.0.0.1:0",
    bindAddressHardFail: true,
    mode: "nftables",
    metrics: { expose: () => Promise.resolve("a 1\n") },
    flags: { cleanup: "false", "proxy-mode": "nftables" },
    startedAtMs: Date.UTC(2025, 10, 1, 9, 8, 7),
    configuration: () => ({ mode: "nftables", bindAddress: "::" }),
    statusPage,
    clock: createFakeClock(),
    logger: silentLogger,
    signal: stop.signal,
    ...options,
  });
  try {
    await test(server.address()!);
  } finally {
    stop.abort();
  }
}
