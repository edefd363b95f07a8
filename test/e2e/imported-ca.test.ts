// suite: shared-plane, sandbox: long
/** A CA of an organisation signs: its intermediate CAs, their successors, and CAs that are refused. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { configMaps, events, secrets } from '../../src/kube/well-known.ts';
import { AUTHORITY, BUNDLE, SERVING, SYSTEM_NAMESPACE, type Cluster } from '../support/cluster.ts';
import { startGatehouse } from '../support/gatehouse-cluster.ts';
import { text, type SecretObject, type EventObject } from '../support/objects.ts';
import { makeCa, type MadeCa, dataOf } from '../support/pki/openssl-ca.ts';
import { eventually } from '../support/processes.ts';
import { nodeVerdict, opensslTrusts } from '../support/trust-verdicts.ts';
import { hasOpenssl } from '../support/trust-verdicts.ts';

const HOST = `gatehouse.${SYSTEM_NAMESPACE}.svc`;
const SETTINGS = { 'ca-propagation-wait': '1s', 'ca-secret': 'our-ca' } as const;
const OUR_CA = { namespace: SYSTEM_NAMESPACE, name: 'our-ca' };

describe.skipIf(!hasOpenssl)('a CA of an organisation', () => {
  let cluster: Cluster;
  let root: MadeCa;

  const intermediate = (issuer: MadeCa, name: string): MadeCa =>
    makeCa({ issuer, subject: `/O=Acme/CN=${name}`, constraints: 'critical,CA:TRUE,pathlen:0' });
  const put = (data: Readonly<Record<string, string>>) => cluster.admin.patchMerge(secrets, OUR_CA, { data });

  beforeAll(async () => {
    root = makeCa();
    ({ cluster } = await startGatehouse({
      settings: SETTINGS,
      prepare: ({ admin }) =>
        admin.create(secrets, {
          apiVersion: 'v1',
          kind: 'Secret',
          type: 'kubernetes.io/tls',
          metadata: OUR_CA,
          data: dataOf(intermediate(root, 'One'), root),
        }),
    }));
  });
  afterAll(() => cluster.stop());

  async function seen() {
    const secret = await cluster.admin.get<SecretObject>(secrets, SERVING);
    const map = await cluster.admin.get<SecretObject>(configMaps, BUNDLE);
    const bundle = map?.data?.['ca.crt'];
    if (secret === undefined || bundle === undefined) throw new Error('nothing is published yet');
    return { chain: text(secret, 'tls.crt'), key: text(secret, 'tls.key'), bundle };
  }

  const generations = async (): Promise<readonly { readonly id: string; readonly state: string }[]> => {
    const secret = await cluster.admin.get<SecretObject>(secrets, AUTHORITY);
    return secret === undefined ? [] : (JSON.parse(text(secret, 'generations.json')) as []);
  };

  const activeId = async () => (await generations()).find(({ state }) => state === 'active')?.id;

  /** Replaces the CA, and waits until the new one has signed the certificate of Gatehouse. */
  async function rotateTo(ca: MadeCa, itsRoot: MadeCa) {
    const [before, previous] = [await seen(), await activeId()];
    await put(dataOf(ca, itsRoot));
    await eventually('the new CA signs', async () => (await activeId()) !== previous);
    return eventually('the serving cert is reissued', async () => {
      const after = await seen();
      return after.chain === before.chain ? undefined : after;
    });
  }

  const verify = async (server: { chain: string; key: string }, bundle: string) => {
    expect(await nodeVerdict({ ...server, privateKey: server.key }, bundle, HOST)).toBe('ok');
    expect(opensslTrusts(server, bundle, HOST)).toBe(true);
  };

  test('an intermediate CA the way cert-manager writes it signs immediately: clients with the root accept the served chain', async () => {
    const { chain, key, bundle } = await eventually('the first certificate', () => seen());
    expect(bundle).toBe(root.cert);
    await verify({ chain, key }, root.cert);
  });

  test('an intermediate CA with a new key under the same root, then one under another root, replace it: old and new clients and servers trust each other', async () => {
    const first = await seen();
    const second = await rotateTo(intermediate(root, 'Two'), root);
    const otherRoot = makeCa({ subject: '/O=Acme/CN=Acme Root 2' });
    const third = await rotateTo(intermediate(otherRoot, 'Three'), otherRoot);
    expect(second.bundle).toBe(root.cert);
    for (const server of [first, second])
      for (const client of [first, second, third]) await verify(server, client.bundle);
    await verify(third, third.bundle);
    await verify(third, otherRoot.cert);
  });

  test('T9: a renewed root for the same key is published together with the former one: clients with either accept all servers', async () => {
    const subject = '/O=Acme/CN=Acme Root 3';
    const ca = makeCa({ subject });
    const first = await rotateTo(ca, ca);
    const renewed = makeCa({ subject, key: ca.key, days: 700 });
    await put(dataOf(renewed, renewed));
    const both = await eventually('the renewed root is published', async () => {
      const after = await seen();
      return after.bundle.includes(renewed.cert) ? after : undefined;
    });
    expect(both.bundle.startsWith(renewed.cert + ca.cert)).toBe(true);
    for (const server of [first, both])
      for (const bundle of [first.bundle, both.bundle, ca.cert, renewed.cert]) await verify(server, bundle);
  });

  test.each<[string, () => readonly [MadeCa, MadeCa], string]>([
    [
      'that excludes svc',
      () => {
        const ca = makeCa({ more: ['nameConstraints=critical,excluded;DNS:svc'] });
        return [ca, ca];
      },
      'its name constraints exclude',
    ],
    [
      'without its root',
      () => [intermediate(root, 'Alone'), makeCa({ subject: '/CN=Other' })],
      'no certificate leads from',
    ],
  ])(
    'T11: a CA %s is refused with the reason, and the current CA remains in use',
    async (_what, make, problem) => {
      const before = await generations();
      await put(dataOf(...make()));
      await eventually('an Event reports it', async () => {
        const { items } = await cluster.admin.list<EventObject>(events, { namespace: SYSTEM_NAMESPACE });
        return items.some(({ reason, message }) => reason === 'CaRefused' && message.includes(problem));
      });
      expect(await generations()).toEqual(before);
      const { chain, key, bundle } = await seen();
      await verify({ chain, key }, bundle);
    },
  );
});
