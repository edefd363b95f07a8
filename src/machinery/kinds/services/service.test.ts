import { expect, test } from 'vitest';
import { created, updated } from '../../../../test/support/sandbox/built-in-objects.ts';

test('an update of a Service that omits the address keeps it', () => {
  const old = created('v1 Service', { spec: { ports: [{ port: 80 }], clusterIP: '10.0.0.9' } });
  expect(updated('v1 Service', { spec: { ports: [{ port: 81 }] } }, old)).toMatchObject({
    spec: { clusterIP: '10.0.0.9', clusterIPs: ['10.0.0.9'], ipFamilies: ['IPv4'], ports: [{ port: 81 }] },
  });
});
