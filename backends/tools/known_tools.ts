/** A tool that Sluice runs: the table of everything known about tools and their versions. */
export interface KnownTool {
  readonly tool: string;
  /** Other tools of the same package that Sluice runs: `iptables-restore`. */
  readonly companions?: readonly string[];
  /** The arguments that print its version; `--version` by default. */
  readonly version?: readonly string[];
  /** The Debian package that contains it; other systems mostly use the same name. */
  readonly package: string;
  /** The effect of its absence; undefined if a mode that runs it needs it. */
  readonly without?: string;
  /** How a dry run recognizes that it only reads; absent if it never does. A companion `*-save` always only reads. */
  readonly reading?: ToolReading;
  /** The oldest version that works; undefined if no version is known that does not. */
  readonly since?: string;
  /** Faults of older versions that work. */
  readonly flaws?: readonly ToolFlaw[];
  /** The versions that tests have run with. */
  readonly tested: readonly string[];
}

interface ToolFlaw {
  /** The first version without it. */
  readonly fixedIn: string;
  /** Its effect, and what to do if it matters. */
  readonly effect: string;
  /** The signal that ends the tool then. */
  readonly signal?: string;
}

/** The runs of a tool that only read. */
export interface ToolReading {
  /** The arguments of each such run contain one of these words. */
  readonly words: readonly string[];
  /** Its error in a kernel without the mode's rules; absent if it succeeds and prints nothing. */
  readonly errorIfEmpty?: string;
}

const IPTABLES_VERSIONS = ["1.8.7", "1.8.9", "1.8.11", "1.8.13"];

/** Every tool that a mode runs, by name. docs/versions.md has the same table (`deno task versions`). */
export const TOOLS = {
  iptables: {
    tool: "iptables",
    companions: ["iptables-restore", "iptables-save"],
    package: "iptables",
    tested: IPTABLES_VERSIONS,
  },
  ip6tables: {
    tool: "ip6tables",
    companions: ["ip6tables-restore", "ip6tables-save"],
    package: "iptables",
    without: "IPv6 is not served",
    tested: IPTABLES_VERSIONS,
  },
  nft: {
    tool: "nft",
    package: "nftables",
    reading: { words: ["list"], errorIfEmpty: "Error: No such file or directory" },
    // 1.0.2 cannot use `numgen` in the type of a concatenation.
    since: "1.0.3",
    flaws: [{
      fixedIn: "1.1",
      signal: "SIGSEGV",
      effect:
        "ends with SIGSEGV if another program's table has a set that a newer nft has made; then install nft 1.1 or " +
        "newer, or set --proxy-mode iptables",
    }],
    tested: ["1.0.6", "1.1.3", "1.1.7"],
  },
  ipvsadm: {
    tool: "ipvsadm",
    package: "ipvsadm",
    reading: { words: ["-L", "-Ln", "-S", "--list", "--save"] },
    tested: ["1.31"],
  },
  ipset: {
    tool: "ipset",
    package: "ipset",
    reading: { words: ["list", "save", "-L", "-S"] },
    tested: ["7.17"],
  },
  ip: { tool: "ip", version: ["-V"], package: "iproute2", reading: { words: ["show"] }, tested: ["6.1.0"] },
  modprobe: {
    tool: "modprobe",
    package: "kmod",
    without: "the kernel must have its modules loaded",
    tested: ["30"],
  },
  conntrack: {
    tool: "conntrack",
    package: "conntrack",
    without: "UDP flows to removed endpoints continue",
    since: "1.4.6",
    flaws: [{ fixedIn: "1.4.7", effect: "deletes stale UDP flows of one endpoint per run, which takes longer" }],
    tested: ["1.4.6", "1.4.7", "1.4.8", "1.4.9"],
  },
  sysctl: {
    tool: "sysctl",
    package: "procps",
    without: "kernel settings stay unchanged, including net.ipv4.ip_forward and the conntrack limits",
    tested: ["3.3.17", "4.0.2", "4.0.4", "4.0.7"],
  },
} as const satisfies Readonly<Record<string, KnownTool>>;

/** The tools of iptables, for both families. */
export const IPTABLES_TOOLS: readonly KnownTool[] = [TOOLS.iptables, TOOLS.ip6tables];

/** The tools that every mode runs. */
export const SHARED_TOOLS: readonly KnownTool[] = [TOOLS.conntrack, TOOLS.sysctl];

/** The version in the first line that a tool prints about itself: `1.0.6` of `nftables v1.0.6 (Lester Gooch #5)`. */
export function versionIn(printed: string): string | undefined {
  return /(?:^|[ v-])(\d+(?:\.\d+)*)/.exec(printed.split("\n", 1)[0]!)?.[1];
}

/** Why a tool that printed this about its version cannot be used; undefined if it can, or prints no version. */
export function tooOld({ tool, since }: KnownTool, printed: string): string | undefined {
  const version = versionIn(printed);
  if (version === undefined || since === undefined || !isOlder(version, since)) return undefined;
  return `${tool} ${version} is too old, ${since} or newer is needed`;
}

/** A tool cannot be used because of its version. */
export class ToolTooOldError extends Error {
  override readonly name = "ToolTooOldError";
}

/** The known flaws of a tool that printed this about its version, in one line: `before 1.1, it ends with …`; empty if none. */
export function flawsOf(
  { flaws = [] }: KnownTool,
  printed: string,
  isAsked: (flaw: ToolFlaw) => boolean = () => true,
): string {
  const version = versionIn(printed);
  return flaws.filter((flaw) => version !== undefined && isOlder(version, flaw.fixedIn) && isAsked(flaw))
    .map(({ fixedIn, effect }) => `before ${fixedIn}, it ${effect}`).join("; ");
}

/** A tool by the name under which it runs; undefined for others than those of modes. */
export function knownTool(name: string): KnownTool | undefined {
  return Object.values<KnownTool>(TOOLS).find(({ tool, companions = [] }) =>
    tool === name || companions.includes(name)
  );
}

/** Whether a version, numbers with dots between them, is older than another one. */
export function isOlder(version: string, than: string): boolean {
  const own = version.split(".").map(Number), other = than.split(".").map(Number);
  const i = other.findIndex((number, i) => (own[i] ?? 0) !== number);
  return i >= 0 && (own[i] ?? 0) < other[i]!;
}
