import type { ProxyMode } from "../../core/model/mod.ts";
import type { Finding } from "../../platform/mod.ts";
import { type Runner, ToolMissingError } from "../tools/mod.ts";

/** A tool that a mode needs, or is the poorer without. */
interface Need {
  readonly tool: string;
  /** How it is asked for its version. */
  readonly version: readonly string[];
  /** The Debian package that has it; other systems call most of them the same. */
  readonly package: string;
  /** What is lost without it; undefined for what nothing works without. */
  readonly without?: string;
}

const IPTABLES: readonly Need[] = [
  { tool: "iptables", version: ["--version"], package: "iptables" },
  { tool: "ip6tables", version: ["--version"], package: "iptables", without: "IPv6 is not served" },
];

const BY_MODE: Readonly<Record<ProxyMode, readonly Need[]>> = {
  iptables: IPTABLES,
  nftables: [{ tool: "nft", version: ["--version"], package: "nftables" }],
  ipvs: [
    { tool: "ipvsadm", version: ["--version"], package: "ipvsadm" },
    { tool: "ipset", version: ["--version"], package: "ipset" },
    { tool: "ip", version: ["-V"], package: "iproute2" },
    ...IPTABLES,
    { tool: "modprobe", version: ["--version"], package: "kmod", without: "the kernel must have its modules loaded" },
  ],
};

const BY_ALL: readonly Need[] = [
  {
    tool: "conntrack",
    version: ["--version"],
    package: "conntrack",
    without: "UDP flows go on to endpoints that are gone",
  },
  {
    tool: "sysctl",
    version: ["--version"],
    package: "procps",
    without: "settings of the kernel stay as they are, net.ipv4.ip_forward and the conntrack limits among them",
  },
];

/** A tool as it was found: what it says of its version, or undefined where it is not installed. */
export interface FoundTool {
  readonly tool: string;
  readonly version: string | undefined;
}

/** Asks each tool that a mode needs for its version. */
export async function findTools(mode: ProxyMode, runner: Runner): Promise<readonly FoundTool[]> {
  return await Promise.all(
    needsOf(mode).map(async ({ tool, version: args }) => {
      try {
        const { stdout, stderr } = await runner.run({ tool, args });
        return { tool, version: firstLine(stdout) || firstLine(stderr) || "of an unknown version" };
      } catch (error) {
        if (!(error instanceof ToolMissingError)) throw error;
        return { tool, version: undefined };
      }
    }),
  );
}

/** What the tools that were found mean for a mode. */
export function judgeTools(mode: ProxyMode, found: readonly FoundTool[]): readonly Finding[] {
  return needsOf(mode).map(({ tool, package: name, without }) => {
    const version = found.find((one) => one.tool === tool)?.version;
    if (version !== undefined) return { name: tool, verdict: "green", message: version };
    return {
      name: tool,
      verdict: without === undefined ? "red" : "yellow",
      message: `is not installed, or not on the PATH: ${without ?? `${mode} mode cannot do without it`}`,
      fix: `apt-get install ${name}, or what your system calls it`,
    };
  });
}

function needsOf(mode: ProxyMode): readonly Need[] {
  return [...BY_MODE[mode], ...BY_ALL];
}

function firstLine(text: string): string {
  return text.split("\n", 1)[0]!.trim();
}
