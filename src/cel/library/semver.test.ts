import { expect, test } from 'vitest';
import { evaluate } from '../../../test/support/cel/evaluate.ts';

test('versions sort as defined by https://semver.org', () => {
  const versions = (
    '1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11 1.0.0-rc.1 ' +
    '1.0.0 1.0.1 1.2.0 1.10.0 18446744073709551615.0.0'
  ).split(' ');
  for (const [i, left] of versions.entries()) {
    for (const [j, right] of versions.entries()) {
      expect(evaluate('semver(l).compareTo(semver(r))', { l: left, r: right })).toBe(
        BigInt(Math.sign(i - j)),
      );
    }
  }
});

test.each([
  [false, '1.0.0 1.0.0-0a 1.0.0+01', true],
  [false, 'hello v1.0 1.2 01.0.0 1.0.0-01 1.0.0- 1.0.0-a..b 1.0.0+ 18446744073709551616.0.0', false],
  [true, 'v1.0', true],
  [true, '1.0-rc \t1.0.0', false],
])('tolerant %s: isSemver of each of %j is %s', (tolerant, texts, result) => {
  for (const text of texts.split(' '))
    expect(evaluate('isSemver(text, tolerant)', { text, tolerant }), text).toBe(result);
});
