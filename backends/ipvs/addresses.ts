/** The addresses of services on this host: on the dummy interface, or held without it. */
import { DUMMY_INTERFACE, type Family } from "../../core/model/mod.ts";
import { canonicalAddress, hostPrefix, prefixContains } from "../../platform/mod.ts";
import {
  classifyFailure,
  failureOf,
  type PlaceChange,
  requireSuccess,
  type Runner,
  type ToolResult,
} from "../tools/mod.ts";

/** The addresses of this host in one family. */
interface HostAddresses {
  /** Whether the dummy interface exists. */
  readonly hasDummy: boolean;
  /** The addresses of the dummy interface. */
  readonly dummy: ReadonlyMap<string, true>;
  /** The addresses of all other interfaces, without loopback and link-local IPv6 addresses. */
  readonly node: readonly string[];
}

/** A change of the dummy interface's addresses. */
export interface AddressChange {
  readonly does: "add" | "del";
  readonly address: string;
}

/**
 * The dummy interface of one family. It holds the addresses of services, since only packets to an address of the node
 * reach IPVS. It is never up and answers no ARP.
 */
export interface DummyInterface {
  list(): Promise<HostAddresses>;
  /** Whether it has any address that is not link-local, of either family; undefined if it does not exist. */
  isUsed(): Promise<boolean | undefined>;
  /** Creates the interface unless it exists. Throws if that fails. */
  create(): Promise<void>;
  /**
   * Applies all changes in one call; a change that is already in effect is not a failure.
   * @returns the tool's message by address, for each change that failed
   */
  apply(changes: readonly AddressChange[]): Promise<ReadonlyMap<string, string>>;
  /** Removes the family's addresses, and the interface if it holds none of the other family. */
  remove(): Promise<void>;
}

const FAMILY_OPTION: Readonly<Record<Family, string>> = { IPv4: "-4", IPv6: "-6" };

/** The dummy interface of this host. */
export function createDummyInterface(family: Family, runner: Runner): DummyInterface {
  const run = (args: readonly string[], onLine?: (line: string) => void) => runner.run({ tool: "ip", args, onLine });
  const prefixLength = family === "IPv4" ? "/32" : "/128";
  const changed = (removed: readonly string[], added: readonly string[]): PlaceChange[] => [
    { kind: "members", place: `interface ${DUMMY_INTERFACE}`, removed, added },
  ];

  async function isUsed(): Promise<boolean | undefined> {
    let used = false;
    const result = await run(["-o", "addr", "show", "dev", DUMMY_INTERFACE], (line) => {
      used ||= !line.includes(" fe80:");
    });
    return result.exitCode === 0 ? used : undefined;
  }

  return {
    async list() {
      const dummy = new Map<string, true>(), node = new Set<string>();
      let hasDummy = false;
      const links = await run(["-o", "link", "show", "dev", DUMMY_INTERFACE], () => {
        hasDummy = true;
      });
      const failure = failureOf("ip link", links);
      if (failure && failure.kind !== "absent") throw new Error(failure.text);
      const result = await run([FAMILY_OPTION[family], "-o", "addr", "show"], (line) => {
        const [, name, , prefix] = line.trim().split(/\s+/);
        const address = canonicalAddress(prefix?.split("/")[0] ?? "");
        if (address === undefined) return;
        if (name === DUMMY_INTERFACE) dummy.set(address, true);
        else if (!STAYS_ON_LINK.some((prefix) => prefixContains(prefix, address))) node.add(address);
      });
      requireSuccess("ip addr", result);
      return { hasDummy, dummy, node: [...node].sort() };
    },
    isUsed,
    async create() {
      const result = await runner.run({
        tool: "ip",
        args: ["link", "add", DUMMY_INTERFACE, "type", "dummy"],
        changes: () => changed([], ["type dummy"]),
      });
      const failure = failureOf("ip link", result);
      if (failure && failure.kind !== "done already") throw new Error(failure.text);
    },
    async apply(changes) {
      // No other host has a service's address, so duplicate address detection is not needed.
      const flags = family === "IPv4" ? "" : " nodad";
      const stdin = changes.map(({ does, address }) =>
        `addr ${does} ${address}${prefixLength} dev ${DUMMY_INTERFACE}${does === "add" ? flags : ""}\n`
      );
      const those = (verb: AddressChange["does"]) =>
        changes.filter(({ does }) => does === verb).map(({ address }) => address + prefixLength);
      const result = await runner.run({
        tool: "ip",
        args: ["-force", "-batch", "-"],
        stdin,
        changes: () => changed(those("del"), those("add")),
      });
      const failure = failureOf("ip", result);
      if (!failure) return new Map();
      const failures = new Map(
        failedCommands(result.stderr).entries().map(([number, message]) => [changes[number]!.address, message]),
      );
      if (failures.size === 0 && failure.kind !== "done already") throw new Error(failure.text);
      return failures;
    },
    async remove() {
      if (await isUsed() === undefined) return;
      const flushed = await run([FAMILY_OPTION[family], "addr", "flush", "dev", DUMMY_INTERFACE]);
      const left = await isUsed();
      if (left !== undefined) requireSuccess("ip addr flush", flushed);
      if (left !== false) return;
      const result = await run(["link", "del", DUMMY_INTERFACE]);
      // The other family may have removed it at the same time.
      if (result.exitCode !== 0 && await isUsed() !== undefined) requireSuccess("ip link del", result);
    },
  };
}

const STAYS_ON_LINK = ["127.0.0.0/8", "::1/128", "fe80::/10"];

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
      requireTable("ip route show", result);
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
      requireTable("ip route flush", await runner.run({ tool: "ip", args: [option, "route", "flush", ...ROUTES] }));
    },
  };
}

/** Throws if a call failed, except because the kernel has no routing table yet: the first route of the family creates it. */
function requireTable(call: string, result: ToolResult): void {
  if (failureOf(call, result)?.kind !== "absent") requireSuccess(call, result);
}

/**
 * The messages of commands that failed in a run of `ip -force -batch`, by their numbers from 0: ip prints a message before the
 * number of its command. A command whose effect is there already has not failed.
 */
function failedCommands(stderr: string): ReadonlyMap<number, string> {
  const failed = new Map<number, string>();
  let message = "";
  for (const line of stderr.split("\n")) {
    const number = /^Command failed -:(\d+)/.exec(line)?.[1];
    if (number === undefined) message = line;
    else if (classifyFailure("ip", message) !== "done already") failed.set(Number(number) - 1, message);
  }
  return failed;
}
