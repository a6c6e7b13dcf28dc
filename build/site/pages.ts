/** Which Markdown files are pages of the site, in which group and order. */

/** A page of the site. */
export interface Page {
  /** Path of the Markdown file in the repository. */
  readonly source: string;
  /** Name of the HTML file in the site. */
  readonly file: string;
  /** Short name in the navigation. */
  readonly name: string;
}

/** Pages under one heading of the navigation. */
export interface Group {
  readonly name: string;
  readonly pages: readonly Page[];
}

/** The navigation: per group, Markdown files with the page's name. */
const GROUPS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "Start": { "README.md": "Overview", "docs/differences.md": "Differences from kube-proxy" },
  "Operate": {
    "docs/operate.md": "Operate",
    "docs/explain.md": "Explain connections",
    "docs/traffic.md": "Traffic",
    "docs/health.md": "Health",
    "docs/problems.md": "Problems",
    "docs/scale.md": "Many nodes",
    "docs/edge.md": "Edge nodes",
    "docs/sites.md": "Sites",
    "docs/failover.md": "Dead nodes",
    "docs/security.md": "Security",
  },
  "Migrate": {
    "docs/versions.md": "Supported versions",
    "docs/migrate.md": "Migrate",
    "docs/upgrade.md": "Upgrade",
    "CHANGELOG.md": "Changelog",
  },
  "Reference": {
    "docs/balance.md": "Choosing endpoints",
    "docs/userspace.md": "Userspace mode",
    "docs/ipvs.md": "IPVS mode",
    "docs/wire.md": "gRPC protocol",
  },
  "Internals": {
    "ARCHITECTURE.md": "Architecture",
    "docs/performance.md": "Performance",
    "docs/reliability.md": "Reliability",
    "CONTRIBUTING.md": "Contributing",
    "SECURITY.md": "Report a vulnerability",
    "docs/licences.md": "Licences",
  },
};

/** The group of pages in docs/ that are in no group. */
const OTHERS = "Reference";

/**
 * Returns the navigation for the Markdown files of a repository, without listed pages that it does not contain and with
 * all further pages of docs/.
 */
export function navigation(sources: readonly string[]): readonly Group[] {
  const listed = Object.values(GROUPS).flatMap((pages) => Object.keys(pages));
  const further = sources.filter((source) => source.startsWith("docs/") && !listed.includes(source)).sort();
  return Object.entries(GROUPS).map(([name, pages]) => ({
    name,
    pages: [
      ...Object.entries(pages).filter(([source]) => sources.includes(source)),
      ...(name === OTHERS ? further.map((source) => [source, nameOf(source)] as const) : []),
    ].map(([source, name]) => ({ source, file: fileOf(source), name })),
  }));
}

function nameOf(source: string): string {
  const name = source.replace(/^.*\/|\.md$/g, "").replaceAll(/[-_]/g, " ");
  return name.charAt(0).toUpperCase() + name.slice(1);
}

function fileOf(source: string): string {
  if (source === "README.md") return "index.html";
  // On file systems that ignore case, it would overwrite docs/security.md.
  if (source === "SECURITY.md") return "vulnerabilities.html";
  return source.replace(/^docs\//, "").replace(/\.md$/, ".html").toLowerCase();
}
