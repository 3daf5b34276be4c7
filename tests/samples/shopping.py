"""A small file to complete: `make run` asks at the end of its last line."""


class Basket:
    def __init__(self):
        self.prices = {}
        self.amounts = {}

    def add(self, name, price, amount=1):
        self.prices[name] = price
        self.amounts[name] = self.amounts.get(name, 0) + amount

    def remove(self, name, amount=1):
        self.amounts[name] = self.amounts.get(name, 0) - amount
        if self.amounts[name] <= 0:
            del self.amounts[name]
            del self.prices[name]

    def total(self):
        total = 0
        for name in self.amounts:
            total += 
