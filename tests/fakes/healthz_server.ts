import { createProxyHealth, startHealthzServer } from "../../observe/proxy_health.ts";
import { systemClock } from "../../platform/clock.ts";
import { silentLogger } from "../../platform/log.ts";

/** Runs a test with a health server and its address (`127.0.0.1:port`). */
export async function withHealthzServer(test: (address: string) => Promise<void>): Promise<void> {
  const end = new AbortController();
  const server = await startHealthzServer({
    bindAddress: "127.0.0.1:0",
    bindAddressHardFail: true,
    health: createProxyHealth({ clock: systemClock, syncPeriodMs: 1000 }),
    onAnswer() {},
    clock: systemClock,
    logger: silentLogger,
    signal: end.signal,
  });
  try {
    await test(server.address()!);
  } finally {
    end.abort();
  }
}
