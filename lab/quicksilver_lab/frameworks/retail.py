"""Small tables of a retailer and ten queries over them, after TPC-DS: a table of facts, four of dimensions.

The queries are SQL that Hive and SQLite understand alike, over whole numbers, so that SQLite says what is right.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Final

Row = tuple[object, ...]

COLUMNS: Final[Mapping[str, str]] = {
    "date_dim": "d_date_sk int, d_year int, d_moy int, d_dow int",
    "item": "i_item_sk int, i_brand_id int, i_category string, i_manager_id int",
    "customer": "c_customer_sk int, c_birth_year int, c_state string",
    "store": "s_store_sk int, s_state string, s_city string",
    "store_sales": "ss_sold_date_sk int, ss_item_sk int, ss_customer_sk int, ss_store_sk int, ss_ticket int,"
    " ss_quantity int, ss_price int, ss_profit int",
}
"""By table; prices are in cents."""

_DAYS, _ITEMS, _CUSTOMERS, _STORES = 730, 400, 1000, 12
_CATEGORIES: Final = ("Books", "Electronics", "Home", "Jewelry", "Music", "Shoes", "Sports", "Women")
_STATES: Final = ("CA", "GA", "MI", "NY", "TN", "TX")

QUERIES: Final[Mapping[str, str]] = {
    "brands_of_a_month": """
        select d_year, i_brand_id, sum(ss_price) as total from store_sales
        join date_dim on d_date_sk = ss_sold_date_sk join item on i_item_sk = ss_item_sk
        where i_manager_id < 10 and d_moy = 11 group by d_year, i_brand_id
        order by d_year, total desc, i_brand_id limit 50""",
    "categories_of_a_year": """
        select d_year, i_category, sum(ss_price) as total from store_sales
        join date_dim on d_date_sk = ss_sold_date_sk join item on i_item_sk = ss_item_sk
        where d_year = 2001 group by d_year, i_category order by total desc, d_year, i_category""",
    "days_of_the_week": """
        select s_city, s_store_sk, d_dow, sum(ss_price) as total, count(*) as sales from store_sales
        join date_dim on d_date_sk = ss_sold_date_sk join store on s_store_sk = ss_store_sk
        group by s_city, s_store_sk, d_dow order by s_city, s_store_sk, d_dow""",
    "states_of_customers": """
        select c_state, s_state, count(*) as sales, sum(ss_quantity) as pieces from store_sales
        join customer on c_customer_sk = ss_customer_sk join store on s_store_sk = ss_store_sk
        group by c_state, s_state order by c_state, s_state""",
    "frequent_customers": """
        select c_customer_sk, c_state, buys.tickets from customer join (
            select ss_customer_sk, count(distinct ss_ticket) as tickets from store_sales group by ss_customer_sk
        ) buys on buys.ss_customer_sk = c_customer_sk
        order by buys.tickets desc, c_customer_sk limit 100""",
    "best_items": """
        select i_category, i_item_sk, sold.profit from item join (
            select ss_item_sk, sum(ss_profit) as profit from store_sales group by ss_item_sk
            having sum(ss_quantity) > 100
        ) sold on sold.ss_item_sk = i_item_sk order by sold.profit desc, i_item_sk limit 100""",
    "growth_of_stores": """
        select first.ss_store_sk, first.total as before, second.total as after from (
            select ss_store_sk, sum(ss_price) as total from store_sales
            join date_dim on d_date_sk = ss_sold_date_sk where d_year = 2000 group by ss_store_sk
        ) first join (
            select ss_store_sk, sum(ss_price) as total from store_sales
            join date_dim on d_date_sk = ss_sold_date_sk where d_year = 2001 group by ss_store_sk
        ) second on first.ss_store_sk = second.ss_store_sk order by first.ss_store_sk""",
    "weekends": """
        select i_category, c_birth_year - c_birth_year % 10 as born, sum(ss_profit) as profit
        from store_sales join date_dim on d_date_sk = ss_sold_date_sk join item on i_item_sk = ss_item_sk
        join customer on c_customer_sk = ss_customer_sk where d_dow in (0, 6)
        group by i_category, c_birth_year - c_birth_year % 10 order by i_category, born""",
    "items_below_average": """
        select s.ss_store_sk, count(*) as items from (
            select ss_store_sk, ss_item_sk, sum(ss_price) as revenue from store_sales group by ss_store_sk, ss_item_sk
        ) s join (
            select ss_store_sk, sum(ss_price) as total, count(distinct ss_item_sk) as kinds from store_sales
            group by ss_store_sk
        ) average on average.ss_store_sk = s.ss_store_sk
        where s.revenue * average.kinds < average.total group by s.ss_store_sk order by s.ss_store_sk""",
    "sales_by_month": """
        select d_year, d_moy, i_category, s_state, sum(ss_price) as total, sum(ss_profit) as profit from store_sales
        join date_dim on d_date_sk = ss_sold_date_sk join item on i_item_sk = ss_item_sk
        join store on s_store_sk = ss_store_sk group by d_year, d_moy, i_category, s_state
        order by total desc, d_year, d_moy, i_category, s_state limit 100""",
}


def tables(sales: int, seed: int = 1) -> dict[str, list[Row]]:
    """Return all rows by table; equal arguments give equal rows."""
    rng = random.Random(seed)
    return {
        "date_dim": [(day, 2000 + day // 365, day % 365 // 31 + 1, day % 7) for day in range(_DAYS)],
        "item": [(item, item % 50, rng.choice(_CATEGORIES), rng.randrange(40)) for item in range(_ITEMS)],
        "customer": [(c, rng.randrange(1930, 2000), rng.choice(_STATES)) for c in range(_CUSTOMERS)],
        "store": [(s, _STATES[s % len(_STATES)], f"City{s % 5}") for s in range(_STORES)],
        "store_sales": list(_sales(sales, rng)),
    }


def _sales(number: int, rng: random.Random) -> Iterator[Row]:
    for ticket in range(number):
        item = min(int(rng.paretovariate(1.2)) - 1, _ITEMS - 1) if rng.random() < 0.5 else rng.randrange(_ITEMS)
        price = rng.randrange(100, 20000)
        yield (
            rng.randrange(_DAYS),
            item,
            rng.randrange(_CUSTOMERS),
            rng.randrange(_STORES),
            ticket // 3,
            rng.randrange(1, 20),
            price,
            price // 5 - rng.randrange(2000),
        )


def as_text(rows: list[Row]) -> str:
    """Return rows as lines with commas between their fields."""
    return "".join(",".join(map(str, row)) + "\n" for row in rows)


def expected(rows: Mapping[str, list[Row]]) -> dict[str, list[str]]:
    """Return what each query gives according to SQLite, a line for each row with tabs between its fields."""
    database = sqlite3.connect(":memory:")
    try:
        for name, content in rows.items():
            database.execute(f"create table {name} ({COLUMNS[name].replace(' string', ' text')})")
            marks = ",".join("?" for _ in content[0])
            database.executemany(f"insert into {name} values ({marks})", content)
        answers = {name: database.execute(query).fetchall() for name, query in QUERIES.items()}
    finally:
        database.close()
    return {name: ["\t".join(map(str, row)) for row in records] for name, records in answers.items()}
