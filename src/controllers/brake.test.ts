import { expect, test } from 'vitest';
import { createBrake, FIGHT_MS } from './brake.ts';

const object = { metadata: { name: 'blue', namespace: 'teams', uid: 'u', generation: 1 } };
const changes = (names: readonly string[], by?: string) =>
  new Map(names.map((name) => [name, { fields: [], by }]));
const at = (ms: number) => new Date(1_000_000 + ms);

/** Passes at these times over the object. Returns the last result. */
function passes(
  brake: ReturnType<typeof createBrake>,
  times: readonly number[],
  written: (index: number) => readonly string[],
) {
  let last: ReturnType<typeof brake.passed>;
  for (const [index, time] of times.entries()) {
    expect(brake.heldUntil(object, at(time))).toBeUndefined();
    last = brake.passed(object, changes(written(index)), at(time));
  }
  return last;
}
const every = (ms: number, count: number) => Array.from({ length: count }, (_none, index) => index * ms);

test('the eleventh change of the same object delays the next pass, and each further one doubles the delay', () => {
  const brake = createBrake();
  expect(passes(brake, every(10, 10), () => ['ConfigMap a'])).toBeUndefined();
  expect(brake.size()).toBe(0);
  const first = brake.passed(object, changes(['ConfigMap a']), at(100));
  expect(first).toEqual({ changed: ['ConfigMap a'], until: at(1_100) });
  expect(brake.size()).toBe(1);
  expect(brake.heldUntil(object, at(1_099))).toEqual(at(1_100));
  expect(brake.heldUntil(object, at(1_100))).toBeUndefined();
  expect(brake.passed(object, changes(['ConfigMap a']), at(1_100))?.until).toEqual(at(3_100));
});

test('the delay has a limit', () => {
  const brake = createBrake();
  let now = 0;
  for (let count = 0; count < 2_000; count += 1) {
    const next = brake.passed(object, changes(['a']), at(now))?.until?.getTime() ?? at(now).getTime();
    expect(next - at(now).getTime()).toBeLessThanOrEqual(300_000);
    now = next - at(0).getTime();
  }
});

test('a random name in each pass counts: what one pass creates, the next one deletes', () => {
  const names = (index: number) => [`ConfigMap ${index}`, `ConfigMap ${index - 1}`];
  expect(passes(createBrake(), every(10, 11), names)).toBeDefined();
});

test.each<[string, readonly number[], (index: number) => readonly string[]]>([
  ['change another object each', every(10, 50), (index) => [`ConfigMap ${index}`]],
  ['follow from a timer', every(3_000, 50), () => ['ConfigMap a']],
  ['write nothing', every(10, 50), () => []],
])('passes that %s are not delayed', (_what, times, written) => {
  expect(passes(createBrake(), times, written)).toBeUndefined();
});

test('a pass that its own write caused is not counted, and does not end the row', () => {
  const everyOther = (index: number) => (index % 2 === 0 ? ['ConfigMap a'] : []);
  expect(passes(createBrake(), every(10, 21), everyOther)).toBeDefined();
});

test.each<[string, (brake: ReturnType<typeof createBrake>) => object]>([
  ['a user changes the object', () => ({ metadata: { ...object.metadata, generation: 2 } })],
  ['a pass writes nothing', (brake) => (brake.passed(object, changes([]), at(1_100)), object)],
  ['the object is gone', (brake) => (brake.forget('teams/blue'), object)],
])('the delay ends when %s', (_what, happen) => {
  const brake = createBrake();
  passes(brake, every(10, 11), () => ['ConfigMap a']);
  const next = happen(brake);
  expect(brake.heldUntil(next, at(200))).toBeUndefined();
  expect(brake.size()).toBe(0);
});

test.each<[string, (index: number) => readonly string[]]>([
  ['change two objects by turns', (index) => [`ConfigMap ${index % 2}`]],
])('passes that %s are delayed', (_what, written) => {
  expect(passes(createBrake(), every(10, 12), written)).toBeDefined();
});

test('passes that change nothing and do not end are delayed by 1 s, until there is a pause', () => {
  const brake = createBrake();
  expect(passes(brake, every(10, 101), () => [])).toEqual({ changed: [], until: at(2_000) });
  expect(brake.passed(object, changes([]), at(2_000))).toBeUndefined();
  expect(brake.heldUntil(object, at(2_001))).toEqual(at(3_000));
  expect(brake.heldUntil(object, at(60_000))).toBeUndefined();
});

test.each([
  ['names a slow fight', 'kubectl', FIGHT_MS - 1, { changed: ['ConfigMap a'], until: undefined }],
  ['forgets a fight after a pause', 'kubectl', FIGHT_MS, undefined],
  ['ignores changes without another client', undefined, FIGHT_MS - 1, undefined],
])('a brake %s', (_what, by, pause, expected) => {
  const brake = createBrake();
  const results = every(pause, 6).map((ms) => brake.passed(object, changes(['ConfigMap a'], by), at(ms)));
  expect(results.at(-1)).toEqual(expected);
});

test('the status of a kind without a generation does not end the delay, and its content does', () => {
  const brake = createBrake();
  const plain = { metadata: { name: 'blue', uid: 'u', resourceVersion: '1' }, data: { a: 'b' } };
  for (const ms of every(10, 11)) brake.passed(plain, changes(['ConfigMap a']), at(ms));
  const metadata = { ...plain.metadata, resourceVersion: '2' };
  const written = { ...plain, metadata, status: { conditions: [] } };
  expect(brake.heldUntil(written, at(200))).toEqual(at(1_100));
  const changed = { ...plain, metadata, data: { a: 'c' } };
  expect(brake.heldUntil(changed, at(200))).toBeUndefined();
});
