import { dirname } from "node:path";
import type { InstalledFile } from "./files.ts";

/** The SHA-256 of a file's content in hexadecimal; undefined where it is not there. */
export async function hashOf(path: string): Promise<string | undefined> {
  try {
    return await hashOfBytes(await Deno.readFile(path));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return undefined;
    throw error;
  }
}

/** The SHA-256 of what a file of the installation is to hold. */
export async function hashOfContent({ content }: InstalledFile): Promise<string> {
  if ("text" in content) return await hashOfBytes(new TextEncoder().encode(content.text));
  const hash = await hashOf(content.copyOf);
  if (hash === undefined) throw new Error(`the executable ${content.copyOf} is gone`);
  return hash;
}

async function hashOfBytes(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Puts a file in its place in one step: a program that runs there goes on with what it was. */
export async function putFile(root: string, { path, mode, content }: InstalledFile): Promise<void> {
  const target = root + path;
  const draft = `${target}.new`;
  await Deno.mkdir(dirname(target), { recursive: true });
  try {
    if ("text" in content) await Deno.writeTextFile(draft, content.text);
    else await Deno.copyFile(content.copyOf, draft);
    await Deno.chmod(draft, mode);
    await Deno.rename(draft, target);
  } catch (error) {
    await Deno.remove(draft).catch(() => {});
    throw error;
  }
}

/** Removes a file, and the folder around it where that is `folder` and nothing is left in it. */
export async function removeFile(root: string, path: string, folders: readonly string[]): Promise<void> {
  await Deno.remove(root + path);
  if (!folders.includes(dirname(path))) return;
  try {
    await Deno.remove(root + dirname(path));
  } catch {
    // Something else is in it.
  }
}
