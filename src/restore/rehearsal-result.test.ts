import { describe, expect, test } from 'vitest';
import { noteOf, parseData, rehearsalResult, toData } from './rehearsal-result.ts';

const RUN = {
  finishedAt: new Date('2026-03-02T04:00:00Z'),
  backup: 'nightly',
  backupTakenAt: new Date('2026-03-02T01:00:00Z'),
};
const resultOf = (problems: readonly string[], before?: ReturnType<typeof rehearsalResult>) =>
  rehearsalResult({ ...RUN, problems }, before);
const many = (count: number) => Array.from({ length: count }, (_, index) => `Refused pods shop/${index}`);

describe('a result', () => {
  test('survives the ConfigMap', () => {
    const result = resultOf(['Refused pods shop/b', 'Refused pods shop/a'], resultOf([]));
    expect(parseData(toData(result))).toEqual(result);
    const problems = ['Refused pods shop/a', 'Refused pods shop/b'];
    expect(result).toMatchObject({ total: 2, added: 2, problems });
  });
  test('counts the problems that the run before did not have, not the difference of the numbers', () => {
    const before = resultOf(['Refused pods shop/a', 'Refused pods shop/b']);
    const next = resultOf(['Refused pods shop/b', 'Refused pods shop/c'], before);
    expect(next).toMatchObject({ total: 2, added: 1 });
  });
  test('of the first run has nothing new', () => {
    expect(resultOf(['Refused pods shop/a'])).toMatchObject({ total: 1, added: 0 });
  });
  test('fits into a ConfigMap regardless of the names', () => {
    const name = 'n'.repeat(253);
    const long = many(5_000).map((line) => `${line}.${name}.${name}`);
    const result = resultOf(long);
    expect(Buffer.byteLength(JSON.stringify(toData(result)))).toBeLessThan(2 ** 20);
    expect(result.total).toBe(5_000);
    expect(resultOf(long, parseData(toData(result))).added).toBe(0);
    expect(resultOf(['\u{1f600}'.repeat(400_000)]).problems).toEqual([]);
  });
  test('with a line break in a name of a forged backup is the same in the next run', () => {
    const forged = ['Refused pods shop/a\nRefused pods shop/b', 'Refused pods shop/c'];
    const before = parseData(toData(resultOf(forged)));
    expect(before?.problems).toHaveLength(2);
    expect(resultOf(forged, before).added).toBe(0);
  });
  test.each([
    ['nothing', undefined],
    ['no data', {}],
    ['another content', { finishedAt: 'yesterday', problems: '1' }],
    ['a forged number', { ...toData(resultOf([])), problems: '1e400' }],
  ])('is not read from %s', (_what, data) => {
    expect(parseData(data)).toBeUndefined();
  });
});

describe('the Event', () => {
  test('of the first run names the problems', () => {
    const problems = many(7);
    const note = noteOf(resultOf(problems), undefined);
    expect(note).toMatchObject({ type: 'Warning', reason: 'RehearsalProblems' });
    expect(note?.message).toBe(
      `a restore of nightly would have 7 problems: ${problems.slice(0, 5).join(', ')}, …`,
    );
  });
  test('says once that the backup is clean', () => {
    const before = resultOf(['Refused pods shop/a']);
    const clean = resultOf([], before);
    expect(noteOf(clean, before)).toMatchObject({ type: 'Normal', reason: 'RehearsalClean' });
    expect(noteOf(resultOf([], clean), clean)).toBeUndefined();
  });
  test('is not repeated for the same problems, or fewer', () => {
    const before = resultOf(['Refused pods shop/a', 'Refused pods shop/b']);
    expect(noteOf(resultOf(['Refused pods shop/b'], before), before)).toBeUndefined();
  });
});
