import { expect, test } from 'vitest';
import { toJson } from '../../api-object.ts';
import { created, updated, updateProblems } from '../../../../test/support/sandbox/built-in-objects.ts';

const SERVICE = 'v1 Service';
const create = (spec: object) => toJson(created(SERVICE, { spec: { ...spec } }));
const port = { port: 80 };

test('a headless Service lacks an address, and has both families without a selector', () => {
  expect(create({ clusterIP: 'None' }).spec).toMatchObject({
    clusterIP: 'None',
    clusterIPs: ['None'],
    ipFamilies: ['IPv4', 'IPv6'],
    ipFamilyPolicy: 'RequireDualStack',
  });
  expect(create({ clusterIP: 'None', selector: { a: 'b' } }).spec).toMatchObject({
    ipFamilies: ['IPv4'],
    ipFamilyPolicy: 'SingleStack',
  });
});

test('an update that omits the address keeps it', () => {
  const old = created(SERVICE, { spec: { ports: [port], clusterIP: '10.0.0.9' } });
  expect(updated(SERVICE, { spec: { ports: [{ port: 81 }] } }, old)).toMatchObject({
    spec: { clusterIP: '10.0.0.9', clusterIPs: ['10.0.0.9'], ipFamilies: ['IPv4'], ports: [{ port: 81 }] },
  });
});

test('a Service that becomes an ExternalName loses its address', () => {
  const old = created(SERVICE, { spec: { ports: [port] } });
  const { spec } = toJson(old);
  const next = { ...(spec as object), type: 'ExternalName', externalName: 'a.b' };
  const changed = toJson(updated(SERVICE, { spec: next }, old)).spec;
  expect(changed).not.toHaveProperty('clusterIP');
  expect(changed).not.toHaveProperty('clusterIPs');
});

test.each([
  ['10.0.0.99', 'spec.clusterIPs[0]: Invalid value: ["10.0.0.99"]: may not change once set'],
  ['None', 'spec.clusterIPs[0]: Invalid value: ["None"]: may not change once set'],
])('the address cannot change to %s', (clusterIP, problem) => {
  const before = { spec: { ports: [port] } };
  expect(updateProblems(SERVICE, before, { spec: { ports: [port], clusterIP } })).toEqual([problem]);
});
