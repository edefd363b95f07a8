/** Divides `room`: each gets what it needs, or an equal share of what those with smaller needs leave. */
export function fairShares(needs: readonly number[], room: number): readonly number[] {
  const shares = needs.map(() => 0);
  const order = needs.map((need, index) => ({ need, index })).toSorted((a, b) => a.need - b.need);
  let left = room;
  for (const [done, { need, index }] of order.entries()) {
    const share = Math.min(need, Math.floor(left / (order.length - done)));
    shares[index] = share;
    left -= share;
  }
  return shares;
}
