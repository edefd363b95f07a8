import { describe, expect, test } from 'vitest';
import { toJson } from '../../api-object.ts';
import { eventAs } from './event.ts';
import { cells, created, createProblems, typeOf } from '../../../../test/support/sandbox/built-in-objects.ts';

const EVENT = 'v1 Event';
const NEW_EVENT = 'events.k8s.io/v1 Event';

describe('an Event', () => {
  const about = { kind: 'Pod', namespace: 'default', name: 'p', fieldPath: 'spec' };
  const written = {
    involvedObject: about,
    reason: 'Done',
    message: 'it is done\n',
    type: 'Normal',
    count: 3,
    firstTimestamp: '1970-01-01T00:00:00Z',
    lastTimestamp: '1970-01-01T00:01:00Z',
    source: { component: 'me', host: 'here' },
    reportingComponent: 'me',
    reportingInstance: 'here',
  };
  const now = new Date(120_000);

  test('shows its name last', () => {
    expect(Object.entries(cells(EVENT, created(EVENT, written), now))).toEqual([
      ['Last Seen', '60s (x3 over 2m)'],
      ['Type', 'Normal'],
      ['Reason', 'Done'],
      ['Object', 'pod/p'],
      ['Subobject', 'spec'],
      ['Source', 'me, here'],
      ['Message', 'it is done'],
      ['First Seen', '2m'],
      ['Count', 3],
      ['Name', 'x'],
    ]);
  });

  test('is the same object in both API groups', () => {
    const core = created(EVENT, written);
    const other = eventAs(core, 'events.k8s.io/v1');
    expect(toJson(other)).toMatchObject({
      apiVersion: 'events.k8s.io/v1',
      regarding: about,
      note: 'it is done\n',
      deprecatedCount: 3,
      deprecatedSource: { component: 'me', host: 'here' },
      reportingController: 'me',
      reason: 'Done',
    });
    expect(other).not.toHaveProperty('involvedObject');
    expect(eventAs(other, 'v1')).toEqual(core);
    expect(eventAs(other, 'events.k8s.io/v1')).toBe(other);
    expect(cells(NEW_EVENT, other, now)).toEqual(cells(EVENT, core, now));
  });

  test.each([
    ['its own namespace', 'a', 'a', []],
    ['the default namespace for a cluster-scoped object', '', 'default', []],
    ['another', 'b', 'a', ['involvedObject.namespace: Invalid value: "b": does not match event.namespace']],
  ])('may be in %s', (_which, namespace, own, expected) => {
    expect(createProblems(EVENT, { involvedObject: { namespace } }, { name: 'x', namespace: own })).toEqual(
      expected,
    );
  });

  test.each([
    [EVENT, 'involvedObject.name', 'p'],
    [EVENT, 'source', 'me'],
    [EVENT, 'reason', 'Done'],
  ])('%s can be selected by %s', (kind, field, value) => {
    expect(typeOf(kind).selectableFields[field]?.(created(kind, written))).toBe(value);
  });
});
