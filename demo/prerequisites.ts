/** What the demo and the tests on a real kernel need from the system. */

/** A tool, and the Debian package that brings it. */
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
 * Makes sure that this is Linux, that the user is root and that the tools are there; installs missing ones with
 * apt-get where there is one, saying so through `say`.
 * @returns what is missing all the same, in one line; undefined where nothing is
 */
export async function missingPrerequisite(say: (line: string) => void): Promise<string | undefined> {
  if (Deno.build.os !== "linux") return `This needs Linux: the rules live in its kernel (this is ${Deno.build.os}).`;
  if (Deno.uid() !== 0) return "This needs root: it makes network namespaces and writes rules into them.";
  let missing = missingTools();
  if (missing.length > 0 && onPath("apt-get")) {
    const packages = packagesOf(missing);
    say(`Installing ${packages.join(", ")} with apt-get …`);
    const failure = await aptInstall(packages);
    missing = missingTools();
    if (missing.length > 0) return `Please install ${packagesOf(missing).join(", ")}: apt-get could not (${failure}).`;
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
    if (args === install && code === 0) return "it ended well";
    if (code !== 0 && args !== install) return lastLine(stderr);
  }
  return "the packages were refused";
}

function lastLine(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes).trim().split("\n").at(-1) ?? "";
}
