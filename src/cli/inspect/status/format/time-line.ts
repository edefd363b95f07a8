/** Lives beside each other, as bars of ASCII over one stretch of time. */
export interface Life {
  readonly from: Date;
  readonly to: Date;
  /** One character; the bar is made of it. */
  readonly stroke: string;
}

export interface TimeLine {
  /** One a life: `.` outside of it, `|` at the moment that is now. All of one length. */
  readonly bars: readonly string[];
  readonly from: Date;
  readonly to: Date;
}

export interface Stretch {
  readonly from: Date;
  readonly to: Date;
  /** Where in it an instant lies: 0 at its begin, 1 at its end. */
  readonly shareOf: (instant: Date) => number;
}

/** From the first to the last of these instants. */
export function stretchOver(first: Date, ...others: readonly Date[]): Stretch {
  const instants = [first, ...others].map(Number);
  const begin = instants.reduce((a, b) => Math.min(a, b));
  const end = instants.reduce((a, b) => Math.max(a, b));
  const shareOf = (instant: Date): number =>
    end === begin ? 0 : Math.min(1, Math.max(0, (Number(instant) - begin) / (end - begin)));
  return { from: new Date(begin), to: new Date(end), shareOf };
}

/** Over all lives and `now`. @param width in characters, 2 and more */
export function timeLine(lives: readonly Life[], now: Date, width: number): TimeLine {
  const stretch = stretchOver(now, ...lives.flatMap(({ from, to }) => [from, to]));
  const columnOf = (instant: Date): number =>
    Math.min(width - 1, Math.floor(stretch.shareOf(instant) * width));
  const at = columnOf(now);
  const bars = lives.map(({ from, to, stroke }) => {
    const [first, last] = [columnOf(from), columnOf(to)];
    return Array.from({ length: width }, (_none, column) => {
      if (column === at) return '|';
      return column >= first && column <= last ? stroke : '.';
    }).join('');
  });
  return { bars, from: stretch.from, to: stretch.to };
}
