import { expect, test } from 'vitest';

import { announceAt, announcementOf, type Announced } from './report.ts';
import type { StaleService } from './served-certs.ts';

const MINUTE = 60_000;

const stale = (...pods: readonly string[]): StaleService => ({
  service: {
    ...{
      namespace: 'shop',
      name: 'db',
      uid: 'u',
      secretName: 'db-tls',
      leaf: 'B',
      serverName: 'db.shop.svc',
    },
    endpoints: [],
  },
  servers: pods.map((pod, day) => ({
    ...{ pod, address: '10.0.0.1', since: 0, notAfter: new Date(Date.UTC(2026, 11, day + 1)) },
  })),
});

/** The reasons of the Events for these states, a minute apart. */
function told(...states: readonly (StaleService | undefined)[]): readonly string[] {
  let announced: Announced | undefined;
  return states.map((state, index) => {
    const next = announcementOf(state, announced, index * MINUTE);
    announced = next.announced;
    return next.event?.reason ?? '';
  });
}

test('the Event names the pods, the Secret and the first end', () => {
  const { event } = announcementOf(stale('db-1', 'db-0'), undefined, 0);
  expect(event).toMatchObject({ type: 'Warning', reason: 'StaleCertificate' });
  expect(event?.message).toBe(
    'pods db-0, db-1 still present an earlier certificate than secret db-tls contains; it ends at 2026-12-01T00:00:00Z: ' +
      'restart the pods before, for example with kubectl rollout restart',
  );
});

test('a long list of pods is shortened', () => {
  const pods = Array.from({ length: 5_000 }, (_, number) => `db-${number}`);
  const message = announcementOf(stale(...pods), undefined, 0).event?.message ?? '';
  expect(message).toContain('and 4990 more still present');
  expect(message.length).toBeLessThan(1_024);
});

test('one Event per change, not one per handshake', () => {
  const [one, two] = [stale('db-0'), stale('db-0', 'db-1')];
  expect(told(one, one, one)).toEqual(['StaleCertificate', '', '']);
  expect(told(one, two, one)).toEqual(['StaleCertificate', 'StaleCertificate', '']);
  expect(told(two, one, undefined, undefined)).toEqual(['StaleCertificate', '', 'CertificateReloaded', '']);
  expect(told(undefined)).toEqual(['']);
});

test('the Event is repeated before Kubernetes forgets it', () => {
  const states = Array.from({ length: 120 }, () => stale('db-0'));
  expect(told(...states).filter((reason) => reason !== '')).toHaveLength(3);
});

test('the more often pods were announced, the longer further pods are gathered', () => {
  const after = (times: number) => announceAt({ secretName: '', pods: new Set(), at: 0, times }, 0) / 1_000;
  expect([announceAt(undefined, 0) / 1_000, after(1), after(2), after(50)]).toEqual([10, 20, 40, 600]);
});
