/** Checks the system requirements of the demo and of the tests that use the kernel. */

/** The required tools and their Debian packages. */
const PACKAGES: Readonly<Record<string, string>> = {
  conntrack: "conntrack",
  ip: "iproute2",
  ip6tables: "iptables",
  iptables: "iptables",
  "iptables-restore": "iptables",
  sysctl: "procps",
  unshare: "util-linux",
};

/**
 * Checks for Linux, root and the tools. Installs missing tools with apt-get if possible, and reports that through `say`.
 * @returns what is still missing, in one line; undefined if nothing is
 */
export async function missingPrerequisite(say: (line: string) => void): Promise<string | undefined> {
  if (Deno.build.os !== "linux") return `This requires Linux (this is ${Deno.build.os}).`;
  if (Deno.uid() !== 0) return "This requires root: it creates network namespaces and writes rules into them.";
  let missing = missingTools();
  if (missing.length > 0 && onPath("apt-get")) {
    const packages = packagesOf(missing);
    say(`Installing ${packages.join(", ")} with apt-get …`);
    const failure = await aptInstall(packages);
    missing = missingTools();
    if (missing.length > 0) return `Please install ${packagesOf(missing).join(", ")}: apt-get failed (${failure}).`;
  }
  return missing.length > 0
    ? `Please install ${missing.join(", ")} (Debian: apt-get install ${packagesOf(missing).join(" ")}).`
    : undefined;
}

function missingTools(): string[] {
  return Object.keys(PACKAGES).filter((tool) => !onPath(tool));
}

function packagesOf(tools: readonly string[]): string[] {
  return [...new Set(tools.map((tool) => PACKAGES[tool]!))];
}

function onPath(tool: string): boolean {
  return (Deno.env.get("PATH") ?? "").split(":").some((folder) => {
    try {
      return Deno.statSync(`${folder}/${tool}`).isFile;
    } catch {
      return false;
    }
  });
}

async function aptInstall(packages: readonly string[]): Promise<string> {
  const env = { DEBIAN_FRONTEND: "noninteractive" };
  const install = ["install", "-y", "-qq", "--no-install-recommends", ...packages];
  for (const args of [install, ["update", "-qq"], install]) {
    const { code, stderr } = await new Deno.Command("apt-get", { args, env, stdin: "null", stdout: "null" }).output();
    if (args === install && code === 0) return "the tools are still missing";
    if (code !== 0 && args !== install) return lastLine(stderr);
  }
  return "cannot install the packages";
}

function lastLine(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes).trim().split("\n").at(-1) ?? "";
}
