import { AUTHORITY_SECRET } from '../annotations.ts';
import type { Authority } from './authority.ts';
import { rootOf, rootProblem, type Generation, type GenerationState } from './generation.ts';
import {
  firstCertificate,
  parsePrivateKeyPem,
  privateKeyOf,
  splitCertificates,
  toCertificatePem,
  type CertificatePem,
} from '../x509/pem.ts';

/**
 * The authority as the `data` of a Secret. Users can read it with kubectl and openssl:
 *
 *     generations.json         [{ id, state, createdAt, publishedAt?, activatedAt?, drainedAt? }], newest first
 *     history.json             { gone: [id], rotatedFor? }; absent before the first rotation
 *     <id>.crt                 the self-signed root
 *     <id>.key                 its private key, PKCS#8; absent when the generation no longer signs
 *     <id>.bridge.crt          a certificate for its key, signed by the previous generation; absent for the first
 *
 * Times are in RFC 3339. Other keys are ignored.
 */
export type AuthoritySecretData = Readonly<Record<string, string>>;

const LIST_KEY = 'generations.json';
const HISTORY_KEY = 'history.json';
const OWN_KEY = /^(generations\.json|history\.json|[0-9a-f]{8}\.(crt|key|bridge\.crt))$/;
const certificateKey = (id: string) => `${id}.crt`;
const privateKeyKey = (id: string) => `${id}.key`;
const bridgeKey = (id: string) => `${id}.bridge.crt`;

/**
 * The stored authority cannot be used. The caller must not make a new one: every client still trusts the old one, so
 * that would be an outage. A user restores the Secret, or consents to a new authority.
 */
export class AuthorityBroken extends Error {
  override readonly name = 'AuthorityBroken';

  constructor(dataKey: string, problem: string, options?: ErrorOptions) {
    super(
      `the authority in secret ${AUTHORITY_SECRET} is broken: ${dataKey}: ${problem}. Restore the secret from a good copy.`,
      options,
    );
  }
}

export function toSecretData({ generations, gone = [], rotatedFor }: Authority): AuthoritySecretData {
  const list = generations.map(({ id, state, createdAt, publishedAt, activatedAt, drainedAt }) => ({
    id,
    state,
    createdAt,
    publishedAt,
    activatedAt,
    drainedAt,
  }));
  const history = gone.length === 0 && rotatedFor === undefined ? undefined : toJson({ gone, rotatedFor });
  const files = generations.flatMap(({ id, certificate, key, bridge }): [string, string | undefined][] => [
    [certificateKey(id), certificate],
    [privateKeyKey(id), key],
    [bridgeKey(id), bridge],
  ]);
  return Object.fromEntries(
    [[LIST_KEY, toJson(list)] as const, [HISTORY_KEY, history] as const, ...files].flatMap(([name, text]) =>
      text === undefined ? [] : [[name, Buffer.from(text).toString('base64')]],
    ),
  );
}

/** Replaces the authority in `data`. Keys of other writers stay. */
export function withAuthority(
  data: AuthoritySecretData | undefined,
  authority: Authority,
): AuthoritySecretData {
  const foreign = Object.entries(data ?? {}).filter(([name]) => !OWN_KEY.test(name));
  return { ...Object.fromEntries(foreign), ...toSecretData(authority) };
}

const toJson = (value: unknown): string => `${JSON.stringify(value, undefined, 2)}\n`;

/**
 * Reads the `data` of the Secret (values in base64). Checks that the authority can sign and that its parts belong
 * together. An expired generation is not an error: {@link isExpired} reports it.
 * @throws AuthorityBroken
 */
export function parseAuthority(data: AuthoritySecretData): Authority {
  const entries = parseList(data);
  const generations = entries.map((entry) => parseGeneration(entry, data));
  for (const [index, generation] of generations.entries()) checkBridge(generation, generations[index + 1]);
  return { generations, ...parseHistory(data) };
}

function parseHistory(data: AuthoritySecretData): Pick<Authority, 'gone' | 'rotatedFor'> {
  const text = textOf(data, HISTORY_KEY);
  if (text === undefined) return {};
  const history = inKey(HISTORY_KEY, (): unknown => JSON.parse(text));
  if (!isRecord(history)) throw new AuthorityBroken(HISTORY_KEY, 'it is not an object');
  const { gone, rotatedFor } = history;
  if (!Array.isArray(gone) || !gone.every((id) => typeof id === 'string'))
    throw new AuthorityBroken(HISTORY_KEY, 'it has no list of the generations that are gone');
  return { gone, ...(typeof rotatedFor === 'string' ? { rotatedFor } : {}) };
}

type Times = 'createdAt' | 'publishedAt' | 'activatedAt' | 'drainedAt';
type ListEntry = Pick<Generation, 'id' | 'state' | Times>;

function parseList(data: AuthoritySecretData): readonly ListEntry[] {
  const text = textOf(data, LIST_KEY);
  if (text === undefined) throw new AuthorityBroken(LIST_KEY, 'it is missing');
  const list = inKey(LIST_KEY, (): unknown => JSON.parse(text));
  if (!Array.isArray(list)) throw new AuthorityBroken(LIST_KEY, 'it is not a list');
  const entries = list.map((entry: unknown, index) => parseEntry(entry, index));
  checkStates(entries);
  return entries;
}

function parseEntry(entry: unknown, index: number): ListEntry {
  const broken = (problem: string) => new AuthorityBroken(LIST_KEY, `entry ${index} ${problem}`);
  if (!isRecord(entry)) throw broken('is not an object');
  const { id, state } = entry;
  if (typeof id !== 'string' || !/^[0-9a-f]{8}$/.test(id)) throw broken('has no id of 8 hexadecimal digits');
  if (!isState(state)) throw broken(`has a state other than ${Object.keys(STATE_ORDER).join(', ')}`);
  const time = (field: Times) => {
    const value = entry[field];
    if (value === undefined) return undefined;
    const date = new Date(typeof value === 'string' ? value : Number.NaN);
    if (Number.isNaN(date.getTime())) throw broken(`has a ${field} that is not a time`);
    return date;
  };
  const createdAt = time('createdAt');
  if (createdAt === undefined) throw broken('has no createdAt');
  const [publishedAt, activatedAt, drainedAt] = [time('publishedAt'), time('activatedAt'), time('drainedAt')];
  return {
    id,
    state,
    createdAt,
    publishedAt,
    activatedAt,
    ...(drainedAt === undefined ? {} : { drainedAt }),
  };
}

/** The order of states in the list. */
const STATE_ORDER: Readonly<Record<GenerationState, number>> = { pending: 0, active: 1, retiring: 2 };

const isState = (value: unknown): value is GenerationState =>
  typeof value === 'string' && Object.hasOwn(STATE_ORDER, value);

function checkStates(entries: readonly ListEntry[]): void {
  const ids = entries.map(({ id }) => id);
  const twice = ids.find((id, index) => ids.indexOf(id) !== index);
  if (twice !== undefined) throw new AuthorityBroken(LIST_KEY, `generation ${twice} is listed twice`);

  const active = entries.filter(({ state }) => state === 'active').map(({ id }) => id);
  if (active.length === 0) throw new AuthorityBroken(LIST_KEY, 'no generation is active');
  if (active.length > 1)
    throw new AuthorityBroken(LIST_KEY, `more than one generation is active: ${active.join(', ')}`);

  const order = entries.map(({ state }) => STATE_ORDER[state]);
  if (order.some((rank, index) => rank < (order[index - 1] ?? rank)))
    throw new AuthorityBroken(LIST_KEY, 'the order is not pending, active, retiring: newest first');
}

function parseGeneration(entry: ListEntry, data: AuthoritySecretData): Generation {
  const { id, state } = entry;
  const certificateText = textOf(data, certificateKey(id));
  if (certificateText === undefined) throw new AuthorityBroken(certificateKey(id), 'it is missing');
  const keyText = textOf(data, privateKeyKey(id));
  const bridgeText = textOf(data, bridgeKey(id));
  const generation: Generation = {
    ...entry,
    certificate: inKey(certificateKey(id), () => parseOneCertificate(certificateText)),
    key: keyText === undefined ? undefined : inKey(privateKeyKey(id), () => parsePrivateKeyPem(keyText)),
    bridge:
      bridgeText === undefined ? undefined : inKey(bridgeKey(id), () => parseOneCertificate(bridgeText)),
  };
  checkRoot(generation);
  if (generation.key === undefined && state !== 'retiring')
    throw new AuthorityBroken(privateKeyKey(id), `it is missing, and generation ${id} is ${state}`);
  if (generation.key !== undefined && !rootOf(generation).checkPrivateKey(privateKeyOf(generation.key)))
    throw new AuthorityBroken(privateKeyKey(id), `it is not the private key of ${certificateKey(id)}`);
  return generation;
}

function parseOneCertificate(text: string): CertificatePem {
  const certificates = splitCertificates(text);
  if (certificates.length !== 1)
    throw new Error(`it holds ${certificates.length} certificates instead of one`);
  return toCertificatePem(certificates);
}

function checkRoot(generation: Generation): void {
  const dataKey = certificateKey(generation.id);
  const problem = inKey(dataKey, () => rootProblem(rootOf(generation)));
  if (problem !== undefined) throw new AuthorityBroken(dataKey, problem);
}

/** A bridge must lead from the previous generation to this one. Without a previous one, the bridge is unused. */
function checkBridge(generation: Generation, previous: Generation | undefined): void {
  const { bridge: pem, id } = generation;
  if (pem === undefined) return;
  const dataKey = bridgeKey(id);
  const bridge = firstCertificate(pem);
  const root = rootOf(generation);
  if (!bridge.ca) throw new AuthorityBroken(dataKey, 'it is not the certificate of a CA');
  if (!bridge.publicKey.equals(root.publicKey) || bridge.subject !== root.subject)
    throw new AuthorityBroken(dataKey, `it does not speak of the same key as ${certificateKey(id)}`);
  if (previous === undefined) return;
  const issuer = rootOf(previous);
  if (!bridge.checkIssued(issuer) || !bridge.verify(issuer.publicKey))
    throw new AuthorityBroken(dataKey, `it is not signed by the generation before it, ${previous.id}`);
}

function textOf(data: AuthoritySecretData, dataKey: string): string | undefined {
  const value = Object.hasOwn(data, dataKey) ? data[dataKey] : undefined;
  return value === undefined ? undefined : Buffer.from(value, 'base64').toString('utf8');
}

function inKey<Value>(dataKey: string, parse: () => Value): Value {
  try {
    return parse();
  } catch (cause) {
    throw new AuthorityBroken(dataKey, cause instanceof Error ? cause.message : String(cause), { cause });
  }
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
