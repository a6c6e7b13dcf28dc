/** Copies of the project, in which tests run: the working tree is never changed. */

/** The path of the project, with a slash at its end. */
export const root = new URL("../../", import.meta.url).pathname;

/** The folder of all copies and other files of a run. */
export const COPIES = `${root}dist/mutants/`;
const NOT_COPIED = new Set([".git", "dist", "coverage", "node_modules"]);

/** The same as in `deno task test`, but a mutation must not write to the project or the system. */
const PERMISSIONS = [
  ...["--allow-read", "--allow-write", "--allow-net", "--allow-env", "--allow-sys"],
  `--deny-write=${[...siblings("/", [COPIES, temporary(), "/dev"]), ...siblings(root, [COPIES])]}`,
];

/** A copy of the project that runs one process at a time. */
export interface Copy {
  /** Its path, with a slash at its end. */
  readonly root: string;
  /**
   * Runs `deno test` for these files, relative to the project's root, in one isolate, until one test fails. Resolves with whether
   * all have passed within `timeoutMs`.
   */
  test(files: readonly string[], timeoutMs: number, ...options: readonly string[]): Promise<boolean>;
  /** Checks the types of a module or folder, relative to the project's root. Resolves with whether they are right. */
  check(path: string): Promise<boolean>;
}

/** Far more than the types of any module need. */
const CHECK_MS = 120_000;

/** Copies the project; `number` names the copy. */
export function copyProject(number: number, signal: AbortSignal): Copy {
  const copy = `${COPIES}${number}/`, loader = `${copy}tests/rooms/mutants_test.ts`;
  copyFolder(root, copy);
  const succeeds = async (args: readonly string[], timeoutMs: number) => {
    const child = new Deno.Command(Deno.execPath(), {
      args: [...args],
      cwd: copy,
      ...{ stdin: "null", stdout: "null", stderr: "null" },
    }).spawn();
    const end = () => child.kill("SIGKILL");
    const ends = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
    ends.addEventListener("abort", end);
    if (ends.aborted) end();
    const { success } = await child.status;
    ends.removeEventListener("abort", end);
    return success;
  };
  return {
    root: copy,
    test(files, timeoutMs, ...options) {
      Deno.writeTextFileSync(loader, files.map((file) => `await import(${JSON.stringify(copy + file)});\n`).join(""));
      const args = ["test", "--quiet", "--no-check", "--fail-fast", ...PERMISSIONS, ...options, loader];
      return succeeds(args, timeoutMs);
    },
    // Features extend types of other rooms.
    check: (path) => succeeds(["check", "--quiet", "main.ts", path], CHECK_MS),
  };
}

/** Deletes all copies and other files. */
export function deleteCopies(): void {
  Deno.removeSync(COPIES, { recursive: true });
}

/** The entries of a folder besides these paths and the folders above them. */
function siblings(folder: string, paths: readonly string[]): readonly string[] {
  return [...Deno.readDirSync(folder)].map(({ name }) => folder + name).filter((path) =>
    !paths.some((one) => `${one}/`.startsWith(`${path}/`))
  );
}

function temporary(): string {
  return Deno.env.get("TMPDIR") ?? "/tmp";
}

function copyFolder(from: string, to: string): void {
  Deno.mkdirSync(to, { recursive: true });
  for (const { name, isDirectory, isFile } of Deno.readDirSync(from)) {
    if (NOT_COPIED.has(name)) continue;
    if (isDirectory) copyFolder(`${from}${name}/`, `${to}${name}/`);
    else if (isFile) Deno.copyFileSync(from + name, to + name);
  }
}
