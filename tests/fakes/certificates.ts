/** Creates certificates for tests of TLS without external tools. */

/** A certificate and its key (PEM). */
export interface CertificatePair {
  readonly cert: string;
  readonly key: string;
}

/** A certificate authority. */
export interface CertificateAuthority {
  /** Its own certificate (PEM). */
  readonly cert: string;
  /**
   * Issues a server and client certificate for an IPv4 address, by default X.509 version 3 for 127.0.0.1.
   */
  issue(commonName: string, version?: 1 | 3, address?: string): Promise<CertificatePair>;
}

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256" } as const;
const DAY_MS = 86_400_000;

/** Creates an authority with a new key. */
export async function createCertificateAuthority(name: string): Promise<CertificateAuthority> {
  const authority = await newKeys();
  const constraints = extension([0x55, 0x1d, 0x13], true, sequence(tagged(0x01, [0xff])));
  return {
    cert: await certificate(name, authority.privateKey, name, authority.publicKey, [constraints]),
    async issue(commonName, version = 3, address = "127.0.0.1") {
      const keys = await newKeys();
      const altName = extension([0x55, 0x1d, 0x11], false, sequence(tagged(0x87, address.split(".").map(Number))));
      const key = new Uint8Array(await crypto.subtle.exportKey("pkcs8", keys.privateKey));
      return {
        cert: await certificate(name, authority.privateKey, commonName, keys.publicKey, version === 3 ? [altName] : []),
        key: pem("PRIVATE KEY", key),
      };
    },
  };
}

async function newKeys(): Promise<CryptoKeyPair> {
  return await crypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]) as CryptoKeyPair;
}

type Der = readonly number[];

/** An X.509 certificate (RFC 5280, 4.1), valid from yesterday until tomorrow; version 3 with extensions, 1 without. */
async function certificate(
  issuer: string,
  issuerKey: CryptoKey,
  subject: string,
  publicKey: CryptoKey,
  extensions: readonly Der[],
): Promise<string> {
  const ecdsaWithSha256 = sequence(tagged(0x06, [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02]));
  const body = sequence(
    extensions.length > 0 ? tagged(0xa0, integer([2])) : [],
    integer([...crypto.getRandomValues(new Uint8Array(8))]),
    ecdsaWithSha256,
    distinguishedName(issuer),
    sequence(time(Date.now() - DAY_MS), time(Date.now() + DAY_MS)),
    distinguishedName(subject),
    [...new Uint8Array(await crypto.subtle.exportKey("spki", publicKey))],
    extensions.length > 0 ? tagged(0xa3, sequence(...extensions)) : [],
  );
  const raw = await crypto.subtle.sign({ name: "ECDSA", hash: "SHA-256" }, issuerKey, Uint8Array.from(body));
  const signature = [...new Uint8Array(raw)];
  const signed = sequence(integer(signature.slice(0, 32)), integer(signature.slice(32)));
  return pem("CERTIFICATE", Uint8Array.from(sequence(body, ecdsaWithSha256, tagged(0x03, [0, ...signed]))));
}

function tagged(tag: number, content: Der): Der {
  const { length } = content;
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return [tag, ...size, ...content];
}

function sequence(...parts: readonly Der[]): Der {
  return tagged(0x30, parts.flat());
}

/** A positive integer from big-endian bytes, in the shortest encoding. */
function integer(bytes: Der): Der {
  const from = bytes.findIndex((byte) => byte !== 0);
  const digits = from === -1 ? [0] : bytes.slice(from);
  return tagged(0x02, digits[0]! >= 0x80 ? [0, ...digits] : digits);
}

function distinguishedName(commonName: string): Der {
  const value = tagged(0x0c, [...new TextEncoder().encode(commonName)]);
  return sequence(tagged(0x31, sequence(tagged(0x06, [0x55, 0x04, 0x03]), value)));
}

function time(ms: number): Der {
  const digits = new Date(ms).toISOString().replace(/[-:T]/g, "").slice(2, 14);
  return tagged(0x17, [...new TextEncoder().encode(`${digits}Z`)]);
}

function extension(id: Der, critical: boolean, value: Der): Der {
  return sequence(tagged(0x06, id), ...(critical ? [tagged(0x01, [0xff])] : []), tagged(0x04, value));
}

function pem(label: string, der: Uint8Array): string {
  const lines = btoa(String.fromCharCode(...der)).match(/.{1,64}/g)!;
  return `-----BEGIN ${label}-----\n${lines.join("\n")}\n-----END ${label}-----\n`;
}
