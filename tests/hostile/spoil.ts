/** Ways in which a file becomes hostile. */

/** Replaces the file at a path by something hostile. */
export type Spoil = (path: string) => void;

/** Puts what `make` creates at its path in the place of `path`, in one step where a folder is not involved. */
function swap(path: string, make: (path: string) => void): void {
  make(`${path}.new`);
  const isFolder = (path: string) => Deno.lstatSync(path).isDirectory;
  if (isFolder(`${path}.new`) || isFolder(path)) Deno.removeSync(path, { recursive: true });
  Deno.renameSync(`${path}.new`, path);
}

/** Writes a file in one step, whatever is in its place. */
export function replace(path: string, content: string | Uint8Array): void {
  swap(
    path,
    (path) => Deno.writeFileSync(path, typeof content === "string" ? new TextEncoder().encode(content) : content),
  );
}

const text = (content: string | Uint8Array): Spoil => (path) => replace(path, content);

/** `text` in UTF-16 with a byte order mark. */
function utf16(text: string): Uint8Array {
  const units = Uint16Array.from(`\ufeff${text}`, (letter) => letter.charCodeAt(0));
  return new Uint8Array(units.buffer);
}

/** Files that are no configuration of any kind. */
export const UNREADABLE: Readonly<Record<string, Spoil>> = {
  "1 GiB": (path) => Deno.truncateSync(path, 2 ** 30),
  "a device": (path) => swap(path, (path) => Deno.symlinkSync("/dev/zero", path)),
  "a pipe": (path) => swap(path, (path) => new Deno.Command("mkfifo", { args: [path] }).outputSync()),
  "a folder": (path) => swap(path, (path) => Deno.mkdirSync(path)),
  "a link to itself": (path) => swap(path, () => Deno.symlinkSync(path, `${path}.new`)),
  "aliases of aliases": (path) => {
    const lists = Array.from({ length: 30 }, (_, i) => `l${i}: &l${i} [${i === 0 ? "x" : `*l${i - 1}, *l${i - 1}`}]`);
    replace(path, `${lists.join("\n")}\nnodes: *l29\n`);
  },
  "10,000 brackets": text(`nodes: ${"[".repeat(10_000)}\n`),
  "10,000 brackets in JSON": text(`{"nodes":${"[".repeat(10_000)}${"]".repeat(10_000)}}`),
  "500 levels of indentation": text(Array.from({ length: 500 }, (_, i) => `${" ".repeat(i)}a:\n`).join("") + "&"),
  "an alias of itself": text("nodes: &a [*a]\n"),
  "an unknown alias": text("nodes: *nobody\n"),
  "a duplicate key": text("kind: A\nkind: B\n"),
  "a quote without an end": text(`services: "${"a".repeat(100_000)}\n`),
  "a tab as indentation": text("services:\n\t- service: 1\n"),
  "a number": text("1e400\n"),
  "NUL": text(new Uint8Array(10_000)),
  "bytes that are no UTF-8": text(new Uint8Array(10_000).fill(0xff)),
  "UTF-16": text(utf16("services: [\n")),
};
