/** Checks that trust never broke: a real TLS handshake for every pair of served chain and published bundle. */
import { createHash } from 'node:crypto';

import { splitCertificates } from '../../src/pki/x509/pem.ts';
import { issuerId, leafOf, rootIds, type TrustEvent } from './trust-history.ts';
import { nodeVerdict, opensslTrusts } from './trust-verdicts.ts';

type ChainEvent = Extract<TrustEvent, { kind: 'chain' }>;
type Served = ChainEvent & { readonly signer: string };

/** @param askOpenssl whether to also run `openssl verify`, which starts a process for each pair */
export function createTrustJudge({ askOpenssl }: { readonly askOpenssl: () => boolean }) {
  const chains = new Map<string, Served>();
  const bundles = new Map<string, readonly string[]>();
  const standing = new Map<string, readonly string[]>();
  const judged = new Set<string>();
  let kept: ReadonlySet<string> = new Set();
  let active: string | undefined;
  const played = new WeakSet<TrustEvent>();

  const judgePair = async (served: Served, bundle: string, event: TrustEvent): Promise<void> => {
    const pair = `${digest(served.chain)} ${digest(bundle)}`;
    if (judged.has(pair)) return;
    judged.add(pair);
    const verdict = await nodeVerdict(served, bundle, served.host);
    const openssl = !askOpenssl() || opensslTrusts(served, bundle, served.host);
    if (verdict === 'ok' && openssl) return;
    const [of, has] = [served.signer, rootIds(bundle).join()];
    throw new Error(
      `trust broke at ${event.kind} of version ${event.version}: a client with the roots ${has} does not trust a chain of ${of} ` +
        `for ${served.host} (node ${verdict}, openssl ${openssl ? 'ok' : 'refuses'}); kept are ${[...kept].join()}`,
    );
  };

  const judgeAll = async (event: TrustEvent): Promise<void> => {
    for (const served of chains.values()) {
      if (!kept.has(served.signer)) continue;
      for (const [bundle, roots] of bundles)
        if (roots.some((id) => kept.has(id))) await judgePair(served, bundle, event);
    }
  };

  const play = (event: TrustEvent): void => {
    switch (event.kind) {
      case 'authority': {
        const { generations } = event.authority;
        kept = new Set(generations.map(({ id }) => id));
        checkPublished(generations.find(({ state }) => state === 'active')?.id ?? '');
        return;
      }
      case 'bundle': {
        const roots = rootIds(event.bundle);
        bundles.set(event.bundle, roots);
        // Clients that mount a serving Secret read its bundle late anyway: no rotation waits for that bundle.
        if (!event.target.startsWith('secrets ')) standing.set(event.target, roots);
        return;
      }
      case 'chain': {
        checkChain(event);
        chains.set(event.chain, { ...event, signer: issuerId(leafOf(event.chain)) });
      }
    }
  };

  /** T7: every target must contain the root of a generation before it begins to sign. */
  const checkPublished = (id: string): void => {
    if (id === active) return;
    active = id;
    for (const [target, roots] of standing)
      if (!roots.includes(id)) throw new Error(`${id} began to sign before ${target} had its root`);
  };

  return {
    /** Replays new events. After each one, a client with a kept root must trust every chain of a kept generation. */
    judge: async (events: readonly TrustEvent[]): Promise<void> => {
      for (const event of events) {
        if (played.has(event)) continue;
        played.add(event);
        play(event);
        await judgeAll(event);
      }
      forgetGone();
    },
    pairs: () => judged.size,
  };

  /** A removed generation does not come back: its pairs are judged. */
  function forgetGone(): void {
    for (const [chain, { signer }] of chains) if (!kept.has(signer)) chains.delete(chain);
    for (const [bundle, roots] of bundles) if (!roots.some((id) => kept.has(id))) bundles.delete(bundle);
  }
}

/** T4: the leaf comes first, the next certificate signs each one, and the chain contains no root. */
function checkChain({ target, chain }: ChainEvent): void {
  const certificates = splitCertificates(chain);
  for (const [index, certificate] of certificates.entries()) {
    if (certificate.checkIssued(certificate)) throw new Error(`${target} serves a root`);
    const next = certificates[index + 1];
    if (next !== undefined && !certificate.checkIssued(next))
      throw new Error(`${target} serves certificate ${index} without its issuer behind it`);
  }
}

const digest = (text: string): string => createHash('sha256').update(text).digest('base64');
