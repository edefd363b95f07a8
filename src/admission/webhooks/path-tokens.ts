/** The unguessable segment of webhook paths. It rotates like a CA: accepted long before and after the API server uses it. */
import { timingSafeEqual } from 'node:crypto';

import type { LiveWebhook } from './dev-entries.ts';

/** Every replica accepts all of them. An empty token stands for the paths of older versions. */
export interface PathTokens {
  readonly previous?: string | undefined;
  readonly current: string;
  /** Follows the current one. Every replica knows it for at least `--ca-propagation-wait` before the API server does. */
  readonly next: string;
  /** The serving certificate for which `current` was made. Empty: an older one. Undefined: the first one. */
  readonly certificate?: string | undefined;
}

type Phase = 'mutate' | 'validate';

export const webhookPath = (phase: Phase, token: string, entryId: string): string =>
  `/${phase}/${token === '' ? '' : `${token}/`}${entryId}`;

/** 128 bits, as hexadecimal digits. */
export const PATH_TOKEN_BYTES = 16;
const TOKEN = /^[0-9a-f]{32}$/;
const PATH = /\/(?:mutate|validate)\/(?:([0-9a-f]{32})\/)?[^/]+$/;

export function tokensIn(webhooks: readonly LiveWebhook[]): readonly string[] {
  const paths = webhooks.map(({ clientConfig: { service, url } }) => PATH.exec(service?.path ?? url ?? ''));
  return [...new Set(paths.flatMap((match) => (match === null ? [] : [match[1] ?? ''])))];
}

export function isAnyToken(token: string, accepted: Iterable<string>): boolean {
  const given = Buffer.from(token);
  let found = false;
  for (const one of accepted) {
    const expected = Buffer.from(one);
    if (expected.length === given.length && timingSafeEqual(expected, given)) found = true;
  }
  return found;
}

/** Keeps the tokens in use: the Secret may have been deleted, or an older version wrote the entries. */
export function firstPathTokens(inUse: readonly string[], random: () => string): PathTokens {
  const [current, previous] = inUse;
  if (current === undefined) return { current: random(), next: random() };
  return { previous, current, next: random(), certificate: '' };
}

/** Undefined: no step is due. Call it when all replicas and API servers have known `tokens` for long. */
export function nextPathTokens(
  { previous, ...tokens }: PathTokens,
  certificate: string | undefined,
  random: () => string,
): PathTokens | undefined {
  const { current, next, certificate: madeFor = certificate } = tokens;
  if (current === '' || (certificate !== undefined && certificate !== madeFor))
    return { previous: current, current: next, next: random(), certificate };
  if (previous === undefined && madeFor === tokens.certificate) return undefined;
  return { ...tokens, certificate: madeFor };
}

export const withPathTokens = (tokens: PathTokens): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(tokens).flatMap(([key, value]: readonly [string, string | undefined]) =>
      value === undefined ? [] : [[key, Buffer.from(value).toString('base64')]],
    ),
  );

export function parsePathTokens(data: Readonly<Record<string, string>> = {}): PathTokens | undefined {
  const decoded = (key: keyof PathTokens) =>
    data[key] === undefined ? undefined : Buffer.from(data[key], 'base64').toString();
  const [previous, current, next] = [decoded('previous'), decoded('current'), decoded('next')];
  if (current === undefined || next === undefined || !TOKEN.test(next)) return undefined;
  if ([previous ?? '', current].some((token) => token !== '' && !TOKEN.test(token))) return undefined;
  return { previous, current, next, certificate: decoded('certificate') };
}
