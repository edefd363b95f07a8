/** The size of the source by room. A room is a folder of src/. */
export interface SourceFile {
  /** Relative to the root of the project: `src/kube/client.ts`. */
  readonly path: string;
  readonly lines: number;
}

export interface RoomSize {
  readonly room: string;
  readonly lines: number;
  readonly count: number;
}

/** The most lines of each room, and the most files of src. Lower them when a concept goes; do not pack lines. */
export const LIMITS = {
  product: { lines: 95_600, files: 640 },
  /** Tests, benchmarks and scripts. */
  tests: { lines: 107_000 },
  rooms: { admission: 16_500, cli: 14_600, machinery: 11_500, runtime: 19_400, sandbox: 6_500 },
} as const;

/** The rooms whose folders are listed separately, too. */
const LARGE_ROOMS = new Set(['admission', 'runtime', 'cli']);

export const isTest = ({ path }: SourceFile): boolean =>
  path.endsWith('.test.ts') || !path.startsWith('src/');

/** @returns the rooms and the folders of the large ones, largest first */
export function sizesByRoom(files: readonly SourceFile[]): readonly RoomSize[] {
  const pairs = files.flatMap((file) => roomsOf(file.path).map((room) => ({ room, file })));
  return [...Map.groupBy(pairs, ({ room }) => room)]
    .map(([room, all]) => ({ room, ...sizeOf(all.map(({ file }) => file)) }))
    .toSorted((a, b) => b.lines - a.lines);
}

function roomsOf(path: string): readonly string[] {
  const [, room = '', folder, file] = path.split('/');
  if (folder === undefined) return ['.'];
  return LARGE_ROOMS.has(room) && file !== undefined ? [room, `${room}/${folder}`] : [room];
}

export const sizeOf = (files: readonly SourceFile[]): Omit<RoomSize, 'room'> => ({
  lines: files.reduce((sum, { lines }) => sum + lines, 0),
  count: files.length,
});

/** @returns one sentence for each limit that is exceeded */
export function missedLimits(files: readonly SourceFile[]): readonly string[] {
  const product = files.filter((file) => !isTest(file));
  const { lines, count } = sizeOf(product);
  const rooms = sizesByRoom(product);
  const tests = sizeOf(files.filter(isTest)).lines;
  const over = (what: string, size: number, limit: number, unit = 'lines') =>
    size > limit ? [`${what}: ${size} ${unit}, at most ${limit} are allowed`] : [];
  return [
    ...over('src', lines, LIMITS.product.lines),
    ...over('src', count, LIMITS.product.files, 'files'),
    ...Object.entries(LIMITS.rooms).flatMap(([name, limit]) =>
      over(`src/${name}`, rooms.find(({ room }) => room === name)?.lines ?? 0, limit),
    ),
    ...over('tests, benchmarks and scripts', tests, LIMITS.tests.lines),
  ];
}
