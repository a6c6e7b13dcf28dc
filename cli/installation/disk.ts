import { dirname } from "node:path";
import type { InstalledFile } from "./files.ts";

/** Returns the SHA-256 of a file in hexadecimal; undefined if the file does not exist. */
export async function hashOf(path: string): Promise<string | undefined> {
  try {
    return await hashOfBytes(await Deno.readFile(path));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return undefined;
    throw error;
  }
}

/** Returns the SHA-256 of the content to install, in hexadecimal. */
export async function hashOfContent({ content }: InstalledFile): Promise<string> {
  if ("text" in content) return await hashOfBytes(new TextEncoder().encode(content.text));
  const hash = await hashOf(content.copyOf);
  if (hash === undefined) throw new Error(`cannot read the executable ${content.copyOf}: it was removed`);
  return hash;
}

async function hashOfBytes(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Writes a file atomically, so that a running program is not modified. */
export async function putFile(
  root: string,
  { path, mode, content }: Pick<InstalledFile, "path" | "mode" | "content">,
): Promise<void> {
  const target = root + path;
  const temporary = `${target}.new`;
  await Deno.mkdir(dirname(target), { recursive: true });
  try {
    if ("text" in content) await Deno.writeTextFile(temporary, content.text);
    else await Deno.copyFile(content.copyOf, temporary);
    await Deno.chmod(temporary, mode);
    await Deno.rename(temporary, target);
  } catch (error) {
    await Deno.remove(temporary).catch(() => {});
    throw error;
  }
}

/** Removes a file, and its folder if that is one of `folders` and is now empty. */
export async function removeFile(root: string, path: string, folders: readonly string[]): Promise<void> {
  await Deno.remove(root + path);
  if (!folders.includes(dirname(path))) return;
  try {
    await Deno.remove(root + dirname(path));
  } catch {
    // Not empty.
  }
}
