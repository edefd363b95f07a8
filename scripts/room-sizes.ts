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

export interface ProductSize {
  readonly lines: number;
  readonly count: number;
  readonly median: number;
  readonly longest: number;
  readonly tooLong: readonly string[];
}

/** The rooms whose folders are listed separately. */
const LARGE_ROOMS = new Set(['admission', 'runtime', 'cli']);
const NOT_PRODUCT = new Set(['sandbox', 'cel']);

const MAX_LINES = 44_000;
const MAX_FILES = 480;
const MEDIAN = { from: 80, to: 160 };
const MAX_FILE_LINES = 350;

/** @returns the rooms, largest first */
export function sizesByRoom(files: readonly SourceFile[]): readonly RoomSize[] {
  return Object.entries(Object.groupBy(files, ({ path }) => roomOf(path)))
    .map(([room, all = []]) => ({ room, lines: sumOfLines(all), count: all.length }))
    .toSorted((a, b) => b.lines - a.lines);
}

function roomOf(path: string): string {
  const [, room = '', folder, file] = path.split('/');
  if (folder === undefined) return '.';
  return LARGE_ROOMS.has(room) && file !== undefined ? `${room}/${folder}` : room;
}

export function measureProduct(files: readonly SourceFile[]): ProductSize {
  const product = files
    .filter(({ path }) => !NOT_PRODUCT.has(path.split('/')[1] ?? ''))
    .toSorted((a, b) => a.lines - b.lines);
  const middle = [Math.floor((product.length - 1) / 2), Math.ceil((product.length - 1) / 2)];
  return {
    lines: sumOfLines(product),
    count: product.length,
    median: middle.reduce((sum, index) => sum + (product[index]?.lines ?? 0), 0) / 2,
    longest: product.at(-1)?.lines ?? 0,
    tooLong: product.filter(({ lines }) => lines > MAX_FILE_LINES).map(({ path }) => path),
  };
}

/** Returns one sentence for each limit that the source exceeds. */
export function missedLimits({ lines, count, median, tooLong }: ProductSize): readonly string[] {
  return [
    ...(lines > MAX_LINES ? [`${lines} lines, at most ${MAX_LINES} are allowed`] : []),
    ...(count > MAX_FILES ? [`${count} files, at most ${MAX_FILES} are allowed`] : []),
    ...(median < MEDIAN.from || median > MEDIAN.to
      ? [`the median file has ${median} lines, it must have ${MEDIAN.from} to ${MEDIAN.to}`]
      : []),
    ...tooLong.map((path) => `${path} has more than ${MAX_FILE_LINES} lines`),
  ];
}

function sumOfLines(files: readonly SourceFile[]): number {
  return files.reduce((sum, { lines }) => sum + lines, 0);
}
