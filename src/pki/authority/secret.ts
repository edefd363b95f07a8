import type { X509Certificate } from 'node:crypto';

import { messageOf } from '../../json/abort.ts';
import { isJsonObject, pick } from '../../json/json.ts';
import { AUTHORITY_SECRET } from '../annotations.ts';
import { base64, type SecretData, textOf } from '../secret-data.ts';
import type { Authority } from './authority.ts';
import {
  caOf,
  type Generation,
  GENERATION_STATES,
  type GenerationState,
  isSameCa,
  onlyCertificate,
  openKey,
  pathOf,
  rootOf,
  sealKey,
  stageOf,
  structureProblem,
} from './generation.ts';
import { hasIssued } from '../x509/chains.ts';
import {
  type CertificatePem,
  firstCertificate,
  parseCertificatePem,
  parsePrivateKeyPem,
  privateKeyOf,
  splitCertificates,
  toCertificatePem,
} from '../x509/pem.ts';

/*
 * The authority as the `data` of a Secret. Users can read it with kubectl and openssl:
 *
 *     generations.json         [{ id, state, createdAt, publishedAt?, activatedAt?, trustedUntil?, files }], newest first
 *     history.json             { gone: [id], rotatedFor? }; absent before the first rotation
 *     <id>.crt                 the certificate of the CA: the self-signed root, or an intermediate CA
 *     <id>.chain.crt           the issuers of an intermediate CA, up to the self-signed root; absent for a root
 *     <id>.former.crt          earlier roots for the same key; absent unless its owner renewed the root
 *     <id>.key                 the private key of <id>.crt, PKCS#8; absent once the generation has stopped signing
 *     <id>.bridge.crt          a certificate for the key of the root, signed by the previous generation; absent for the first
 *
 * Times are in RFC 3339. `files` are the optional keys that must be there, so that a lost one is noticed; older versions
 * do not write them. Other keys are ignored.
 */

const LIST_KEY = 'generations.json';
const HISTORY_KEY = 'history.json';
const OWN_KEY = /^(generations\.json|history\.json|[0-9a-f]{8}\.(crt|key|(chain|former|bridge)\.crt))$/;
const certificateKey = (id: string) => `${id}.crt`;
const privateKeyKey = (id: string) => `${id}.key`;
const chainKey = (id: string) => `${id}.chain.crt`;
const formerKey = (id: string) => `${id}.former.crt`;
const bridgeKey = (id: string) => `${id}.bridge.crt`;

/** The caller must not make a new authority: every client still trusts the old one, so that would be an outage. */
export class AuthorityBroken extends Error {
  override readonly name = 'AuthorityBroken';

  constructor(dataKey: string, problem: string, options?: ErrorOptions) {
    super(
      `the authority in secret ${AUTHORITY_SECRET} is broken: ${dataKey}: ${problem}. Restore the secret from a good copy.`,
      options,
    );
  }
}

export function toSecretData({ generations, gone = [], rotatedFor }: Authority): SecretData {
  const hasHistory = gone.length > 0 || rotatedFor !== undefined;
  const list = generations.map((one, index) => ({
    ...pick(one, 'id', 'state', 'createdAt', 'publishedAt', 'activatedAt', 'trustedUntil'),
    files: [
      ...(index === 0 && hasHistory ? [HISTORY_KEY] : []),
      ...(one.formerRoots === undefined ? [] : [formerKey(one.id)]),
      ...(one.bridge === undefined ? [] : [bridgeKey(one.id)]),
    ],
  }));
  const files: readonly (readonly [string, string | undefined])[] = [
    [LIST_KEY, toJson(list)],
    [HISTORY_KEY, hasHistory ? toJson({ gone, rotatedFor }) : undefined],
    ...generations.flatMap(({ id, certificate, chain, formerRoots, key, bridge }) => [
      [certificateKey(id), certificate] as const,
      [chainKey(id), chain] as const,
      [formerKey(id), formerRoots] as const,
      [privateKeyKey(id), key && openKey(key)] as const,
      [bridgeKey(id), bridge] as const,
    ]),
  ];
  return Object.fromEntries(
    files.flatMap(([name, text]) => (text === undefined ? [] : [[name, base64(text)]])),
  );
}

export function withAuthority(data: SecretData | undefined, authority: Authority): SecretData {
  const foreign = Object.entries(data ?? {}).filter(([name]) => !OWN_KEY.test(name));
  return { ...Object.fromEntries(foreign), ...toSecretData(authority) };
}

const toJson = (value: unknown): string => `${JSON.stringify(value, undefined, 2)}\n`;

/** Checks that the parts belong together. An expired generation is not an error. @throws AuthorityBroken */
export function parseAuthority(data: SecretData): Authority {
  const entries = read(data, LIST_KEY, parseList);
  if (entries === undefined) throw new AuthorityBroken(LIST_KEY, 'it is missing');
  const lost = read(data, LIST_KEY, filesIn)?.find((name) => data[name] === undefined);
  if (lost !== undefined) throw new AuthorityBroken(lost, `it is missing, and ${LIST_KEY} lists it`);
  const generations = entries.map((entry) => parseGeneration(entry, data));
  for (const [index, generation] of generations.entries()) checkBridge(generation, generations[index + 1]);
  return { generations, ...read(data, HISTORY_KEY, parseHistory) };
}

function parseHistory(text: string): Pick<Authority, 'gone' | 'rotatedFor'> {
  const history: unknown = JSON.parse(text);
  if (!isJsonObject(history)) throw new Error('it is not an object');
  const { gone, rotatedFor } = history;
  if (!Array.isArray(gone) || !gone.every((id) => typeof id === 'string'))
    throw new Error('its list of the generations that are gone is missing');
  return { gone, ...(typeof rotatedFor === 'string' ? { rotatedFor } : {}) };
}

type Times = 'createdAt' | 'publishedAt' | 'activatedAt' | 'trustedUntil';
type ListEntry = Pick<Generation, 'id' | 'state' | Times>;

function parseList(text: string): readonly ListEntry[] {
  const list: unknown = JSON.parse(text);
  if (!Array.isArray(list)) throw new Error('it is not a list');
  const entries = list.map((entry: unknown, index) => parseEntry(entry, index));
  checkStates(entries);
  return entries;
}

const filesIn = (text: string): readonly string[] =>
  (JSON.parse(text) as readonly { readonly files?: unknown }[])
    .flatMap(({ files }): readonly unknown[] => (Array.isArray(files) ? files : []))
    .filter((name) => typeof name === 'string');

function parseEntry(entry: unknown, index: number): ListEntry {
  const broken = (problem: string) => new Error(`entry ${index} ${problem}`);
  if (!isJsonObject(entry)) throw broken('is not an object');
  const { id, state } = entry;
  if (typeof id !== 'string' || !/^[0-9a-f]{8}$/.test(id))
    throw broken('needs an id of 8 hexadecimal digits');
  if (!isState(state)) throw broken(`has a state other than ${GENERATION_STATES.join(', ')}`);
  const time = (field: Times) => {
    const value = entry[field];
    if (value === undefined) return undefined;
    const date = new Date(typeof value === 'string' ? value : Number.NaN);
    if (Number.isNaN(date.getTime())) throw broken(`has a ${field} that is not a time`);
    return date;
  };
  const createdAt = time('createdAt');
  if (createdAt === undefined) throw broken('lacks createdAt');
  const [publishedAt, activatedAt] = [time('publishedAt'), time('activatedAt')];
  return { id, state, createdAt, publishedAt, activatedAt, trustedUntil: time('trustedUntil') };
}

const isState = (value: unknown): value is GenerationState =>
  GENERATION_STATES.some((state) => state === value);

function checkStates(entries: readonly ListEntry[]): void {
  const ids = entries.map(({ id }) => id);
  const twice = ids.find((id, index) => ids.indexOf(id) !== index);
  if (twice !== undefined) throw new Error(`generation ${twice} is listed twice`);

  const active = entries.filter(({ state }) => state === 'active').map(({ id }) => id);
  if (active.length === 0) throw new Error('no generation is active');
  if (active.length > 1) throw new Error(`more than one generation is active: ${active.join(', ')}`);

  const order = entries.map(({ state }) => stageOf(state));
  if (order.some((stage, index) => stage < (order[index - 1] ?? stage)))
    throw new Error('the order is not pending, active, retiring: newest first');
}

function parseGeneration(entry: ListEntry, data: SecretData): Generation {
  const { id, state } = entry;
  const certificate = read(data, certificateKey(id), parseOneCertificate);
  if (certificate === undefined) throw new AuthorityBroken(certificateKey(id), 'it is missing');
  const chain = read(data, chainKey(id), parseCertificatePem);
  const pem = read(data, privateKeyKey(id), parsePrivateKeyPem);
  const key = pem && sealKey(id, pem);
  const bridge = read(data, bridgeKey(id), parseOneCertificate);
  const formerRoots = read(data, formerKey(id), (text) => sameCas(text, rootOf({ certificate, chain })));
  const generation: Generation = { ...entry, certificate, chain, formerRoots, key, bridge };
  const problem = read(data, certificateKey(id), () => structureProblem(pathOf(generation)));
  if (problem !== undefined) throw new AuthorityBroken(certificateKey(id), problem);
  if (key === undefined && state !== 'retiring')
    throw new AuthorityBroken(privateKeyKey(id), `it is missing, and generation ${id} is ${state}`);
  if (pem !== undefined && !caOf(generation).checkPrivateKey(privateKeyOf(pem)))
    throw new AuthorityBroken(privateKeyKey(id), `it is not the private key of ${certificateKey(id)}`);
  return generation;
}

/** Without strangers: an older version ignores this key and lets it stay when it replaces the root. */
function sameCas(text: string, root: X509Certificate): CertificatePem | undefined {
  const former = splitCertificates(text).filter((one) => isSameCa(one, root));
  return former.length === 0 ? undefined : toCertificatePem(former);
}

const parseOneCertificate = (text: string) => toCertificatePem([onlyCertificate(text)]);

/** A bridge must lead from the previous generation to this one. Without a previous one, the bridge is unused. */
function checkBridge(generation: Generation, previous: Generation | undefined): void {
  const { bridge: pem, id } = generation;
  if (pem === undefined) return;
  const dataKey = bridgeKey(id);
  const bridge = firstCertificate(pem);
  const root = rootOf(generation);
  if (!bridge.ca) throw new AuthorityBroken(dataKey, 'it is not the certificate of a CA');
  if (!bridge.publicKey.equals(root.publicKey) || bridge.subject !== root.subject)
    throw new AuthorityBroken(dataKey, `its key is not the key of the root in ${certificateKey(id)}`);
  if (previous === undefined) return;
  const issuer = caOf(previous);
  if (!hasIssued(issuer, bridge))
    throw new AuthorityBroken(dataKey, `it is not signed by the generation before it, ${previous.id}`);
}

function read<Value>(data: SecretData, dataKey: string, parse: (text: string) => Value): Value | undefined {
  const text = textOf(data, dataKey);
  try {
    return text === undefined ? undefined : parse(text);
  } catch (cause) {
    throw new AuthorityBroken(dataKey, messageOf(cause), { cause });
  }
}
