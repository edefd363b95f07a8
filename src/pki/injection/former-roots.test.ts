import { beforeAll, expect, test } from 'vitest';
import { caBundle, MAX_BUNDLE_BYTES } from '../authority/authority.ts';
import { DAY } from '../durations.ts';
import { firstAuthority } from '../../../test/support/pki/fixtures.ts';
import { joinCertificatePems, splitCertificates, type CertificatePem } from '../x509/pem.ts';
import { formatRecord, OVERLAP_MS, parseRecord, withFormerRoots, type KnownRoot } from './former-roots.ts';

const start = new Date('2026-03-01T00:00:00Z');
const days = (count: number) => new Date(start.getTime() + count * DAY);
const roots: CertificatePem[] = [];
const root = (index: number): CertificatePem => {
  const found = roots[index];
  if (found === undefined) throw new Error('too few roots');
  return found;
};

beforeAll(async () => {
  for (let index = 0; index < 12; index++) roots.push(caBundle(await firstAuthority(start), start));
});

const given = (pem: CertificatePem) => ({ kind: 'bundle', pem }) as const;
const rotate = (from: number, to: number, now: Date, before: readonly KnownRoot[] = []) => {
  const first = withFormerRoots(given(root(from)), before, now);
  return withFormerRoots(given(root(to)), first.roots, now);
};

test('a root that the source drops stays for the overlap, and is then gone', () => {
  const { state, roots: known } = rotate(0, 1, start);
  const both = joinCertificatePems([root(1), root(0)]);
  expect(state).toEqual({ kind: 'bundle', pem: both, until: new Date(start.getTime() + OVERLAP_MS) });
  expect(withFormerRoots(given(root(1)), known, days(89)).state).toMatchObject({ pem: both });
  const later = withFormerRoots(given(root(1)), known, days(90));
  expect(later).toMatchObject({ state: { pem: root(1) }, roots: [{}] });
});

test('a former root goes when it expires, if that is earlier', () => {
  const [first] = splitCertificates(root(0));
  const end = first?.validToDate ?? start;
  const dropped = new Date(end.getTime() - DAY);
  expect(rotate(0, 1, dropped).state).toMatchObject({ until: end });
  const { roots: known } = rotate(0, 1, dropped);
  expect(withFormerRoots(given(root(1)), known, end).roots).toHaveLength(1);
});

test('a root that comes back is held again, and dropped from then on', () => {
  const { roots: known } = rotate(0, 1, start);
  const back = withFormerRoots(given(root(0)), known, days(10));
  expect(back.state).toMatchObject({ pem: joinCertificatePems([root(0), root(1)]) });
  const again = withFormerRoots(given(root(1)), back.roots, days(95));
  expect(again.state).toMatchObject({ pem: joinCertificatePems([root(1), root(0)]) });
});

test('a root that the authority distrusts leaves sources with its bundle at once', () => {
  const ours = root(1);
  const first = withFormerRoots(given(joinCertificatePems([root(0), root(1)])), [], start, ours);
  expect(withFormerRoots(given(root(1)), first.roots, start, ours)).toMatchObject({
    state: { pem: root(1) },
    roots: [{}],
  });
  const another = withFormerRoots(given(root(1)), first.roots, start, root(2));
  expect(another.roots).toHaveLength(2);
});

test('a source that keeps changing leaves at most eight former roots, the latest ones', () => {
  let known: readonly KnownRoot[] = [];
  for (let index = 0; index < 12; index++)
    known = withFormerRoots(given(root(index)), known, days(index)).roots;
  const held = known.map(({ der }) => roots.findIndex((pem) => pem.replaceAll('\n', '').includes(der)));
  expect(held).toEqual([11, 10, 9, 8, 7, 6, 5, 4, 3]);
});

test.each([{ kind: 'unknown' } as const, { kind: 'unusable', message: 'gone' } as const])(
  'a source that is $kind stays so, and its roots are not forgotten',
  (state) => {
    const { roots: known } = rotate(0, 1, start);
    expect(withFormerRoots(state, known, days(1))).toEqual({ state, roots: known });
  },
);

test('a bundle is as large as others may be: the latest former roots stay, as far as there is room', () => {
  const { roots: known } = rotate(0, 2, start);
  const of = (count: number) => joinCertificatePems(Array.from({ length: count }, () => root(1)));
  const full = Math.floor(MAX_BUNDLE_BYTES / root(1).length);
  const most = withFormerRoots(given(of(full - 1)), known, days(1));
  expect(most.state).toMatchObject({ pem: joinCertificatePems([of(full - 1), root(2)]) });
  const none = withFormerRoots(given(of(full)), known, days(1));
  expect(none.state).toMatchObject({ pem: of(full) });
  expect(none.roots.filter(({ droppedAt }) => droppedAt !== undefined)).toEqual([]);
});

test('the record survives a restart, and broken parts of it are left out', () => {
  const { roots: known } = rotate(0, 1, start);
  const text = formatRecord(new Map([['Secret vault/ca', known]]), () => true).text;
  expect(parseRecord(text)).toEqual(new Map([['Secret vault/ca', known]]));
  for (const broken of [undefined, '', '{', '{}', '[1, [2], ["a"]]', 'null'])
    expect(parseRecord(broken)).toEqual(new Map());
  expect(parseRecord('[["a", [["AAAA", 0], "x", [1, 2]]]]')).toEqual(new Map([['a', []]]));
});

test('a record that is too large keeps the sources in use first, and small ones before large ones', () => {
  const large = Array.from({ length: 400 }, () => ({ der: 'A'.repeat(600) }));
  const record = new Map([
    ['large', large],
    ['unused', [{ der: 'A' }]],
    ['small', [{ der: 'A' }]],
  ]);
  const { text, lost } = formatRecord(record, (name) => name !== 'unused');
  expect((JSON.parse(text) as [string][]).map(([name]) => name)).toEqual(['small', 'unused']);
  expect(lost).toEqual(['large']);
  expect([...record.keys()]).toEqual(['large', 'unused', 'small']);
});

test('sources that no target names anymore are forgotten when there is no room: memory does not grow', () => {
  const some = Array.from({ length: 50 }, () => ({ der: 'A'.repeat(600) }));
  const record = new Map(Array.from({ length: 50 }, (_, index) => [`source ${index}`, some]));
  expect(formatRecord(record, () => false).lost).toEqual([]);
  expect(record.size).toBe(6);
});
