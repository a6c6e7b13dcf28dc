import type { Family } from "../../core/model/mod.ts";
import { canonicalAddress, hostPrefix } from "../../platform/mod.ts";
import { failureOf, requireSuccess, type Runner, runOrThrow } from "../tools/mod.ts";
import { failedCommands } from "./ip_batch.ts";

/**
 * Service addresses without the dummy interface: local routes, by which packets of open connections still reach IPVS. The
 * node's own new connections start from an address of the node then. From an address of the dummy interface, they would break
 * once it is removed.
 */
export interface HeldAddresses {
  /** Lists the held addresses. Throws if the kernel cannot be read. */
  list(): Promise<ReadonlySet<string>>;
  /** Holds addresses, in one call. Throws if that fails. @param nodeAddresses the node's own, in case that it has no default route */
  hold(addresses: Iterable<string>, nodeAddresses: readonly string[]): Promise<void>;
  /** Releases addresses, in one call. Throws if that fails. */
  release(addresses: Iterable<string>): Promise<void>;
  /** Releases all. Throws if that fails. */
  releaseAll(): Promise<void>;
}

/** The number that marks these routes; none of those in iproute2's rt_protos. */
const PROTOCOL = "122";
const ROUTES = ["table", "local", "proto", PROTOCOL];

const FAMILY_OPTION: Readonly<Record<Family, string>> = { IPv4: "-4", IPv6: "-6" };

/** An address of no host (RFC 5737 and 3849), to which the default route leads. */
const ELSEWHERE: Readonly<Record<Family, string>> = { IPv4: "192.0.2.1", IPv6: "2001:db8::1" };

/** The held addresses of this host in one family. */
export function createHeldAddresses(family: Family, runner: Runner): HeldAddresses {
  const option = FAMILY_OPTION[family];

  async function batch(lines: readonly string[]): Promise<void> {
    if (lines.length === 0) return;
    const result = await runner.run({ tool: "ip", args: [option, "-force", "-batch", "-"], stdin: lines });
    const failure = failureOf("ip route", result);
    if (failure && (failedCommands(result.stderr).size > 0 || failure.kind !== "done already")) {
      throw new Error(failure.text);
    }
  }

  /** The address from which the node reaches other hosts; undefined if the kernel knows none. */
  async function ownSource(): Promise<string | undefined> {
    let source: string | undefined;
    await runner.run({
      tool: "ip",
      args: [option, "-o", "route", "get", ELSEWHERE[family]],
      onLine(line) {
        source ??= / src (\S+)/.exec(line)?.[1];
      },
    });
    return source;
  }

  return {
    async list() {
      const held = new Set<string>();
      const result = await runner.run({
        tool: "ip",
        args: [option, "-o", "route", "show", ...ROUTES],
        onLine(line) {
          const address = canonicalAddress(/^local (\S+)/.exec(line)?.[1] ?? "");
          if (address !== undefined) held.add(address);
        },
      });
      // Without any route in the family, the kernel has no table of routes yet.
      if (failureOf("ip route show", result)?.kind !== "absent") requireSuccess("ip route show", result);
      return held;
    },
    async hold(addresses, nodeAddresses) {
      const source = await ownSource() ?? nodeAddresses[0];
      // IPv4 refuses `add` while the interface has the address.
      const rest = `dev lo ${ROUTES.join(" ")}${source === undefined ? "" : ` src ${source}`}\n`;
      await batch(Array.from(addresses, (address) => `route append local ${hostPrefix(address)} ${rest}`));
    },
    async release(addresses) {
      const rest = `dev lo ${ROUTES.join(" ")}\n`;
      await batch(Array.from(addresses, (address) => `route del local ${hostPrefix(address)} ${rest}`));
    },
    async releaseAll() {
      await runOrThrow(runner, { tool: "ip", args: [option, "route", "flush", ...ROUTES] }, "ip route flush");
    },
  };
}
